import type { Define } from '../session.ts';
import { defineAppend } from './agents/append.ts';
import { defineChange } from './agents/change.ts';
import { defineCursors } from './agents/cursors.ts';
import { defineFiles } from './agents/files.ts';
import { defineRead } from './agents/read.ts';

/** The commands of agents. */
export const define: Define = (command, run) => {
  defineRead(command, run);
  defineChange(command, run);
  defineAppend(command, run);
  defineCursors(command, run);
  defineFiles(command, run);
};
