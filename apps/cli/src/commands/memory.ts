import type { Define } from '../session.ts';
import { defineBatch } from './memory/batch.ts';
import { defineBlock } from './memory/block.ts';
import { defineDiff } from './memory/diff.ts';
import { defineReview } from './memory/review.ts';
import { defineRevert } from './memory/revert.ts';

/** The commands of memory. */
export const define: Define = (command, run) => {
  defineBlock(command, run);
  defineDiff(command, run);
  defineRevert(command, run);
  defineBatch(command, run);
  defineReview(command, run);
};
