import type { Define } from '../session.ts';
import { defineChange } from './schedules/change.ts';
import { defineRead } from './schedules/read.ts';
import { defineRun } from './schedules/run.ts';

/** The commands of schedules. */
export const define: Define = (command, run) => {
  defineRead(command, run);
  defineChange(command, run);
  defineRun(command, run);
};
