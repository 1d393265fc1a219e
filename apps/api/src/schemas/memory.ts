import { z } from 'zod';
import { shownId, UUID } from './ids.ts';
import { shownTime } from './moment.ts';
import { CHANGE, MEMORY_CHANGE, REVISION } from './examples/agents.ts';
import { REVERT_REPORT } from './examples/batches.ts';
import { BLOCK_ID } from './examples/ids.ts';

/** Writer of a revision: a tool call of a run; all null for other API clients. */
const writer = {
  resolution: z
    .enum(['clean', 'merged', 'overwrote', 'edited'])
    .nullable()
    .describe(
      "How a tool call's write was resolved; null for other writes. `edited`: its text was edited in a review.",
    ),
  job_id: shownId('job').nullable(),
  run_id: shownId('run').nullable(),
  agent_id: shownId('agent').nullable(),
  step_id: shownId('step').nullable(),
  tool_call_id: z.string().nullable(),
  created_at: shownTime,
};

/** A write of a block, without its text. */
export const blockRevision = z
  .object({
    block_id: shownId('block'),
    revision: z.int(),
    description: z.string().nullable(),
    limit: z.int(),
    read_only: z.boolean(),
    based_on: z.int().nullable().describe('The revision that the writer saw; null for the first.'),
    ...writer,
  })
  .meta({ id: 'BlockRevision', examples: [REVISION] });
export type BlockRevision = z.output<typeof blockRevision>;

export const blockRevisionWithValue = blockRevision.extend({ value: z.string() }).meta({
  id: 'BlockRevisionWithValue',
  examples: [{ ...REVISION, value: 'Name: Ann. Moves to Berlin in May.' }],
});

/** Fields of a difference of two texts. */
export const change = {
  label: z.string(),
  from_revision: z.int().nullable().describe('Null for a block that did not exist.'),
  to_revision: z.int(),
  diff: z.string().describe('Unified diff; empty if the text is unchanged.'),
  chars_before: z.int(),
  chars_after: z.int(),
  lines_added: z.int(),
  lines_removed: z.int(),
  shrunk: z
    .boolean()
    .describe('True if the write removed three fifths of a text of at least 200 characters: check it.'),
};

/** The difference of two revisions of one block. */
export const blockDiff = z
  .object({ block_id: shownId('block'), ...change })
  .meta({ id: 'BlockDiff', examples: [{ block_id: BLOCK_ID, ...CHANGE }] });

/** A memory write of a batch, for review. */
export const memoryChange = z
  .object({
    id: z
      .string()
      .meta({ pattern: `^block-${UUID}@[1-9][0-9]*$` })
      .describe('Id of the write, and cursor for pages.'),
    block_id: shownId('block'),
    ...change,
    ...writer,
  })
  .meta({ id: 'MemoryChange', examples: [MEMORY_CHANGE] });
export type MemoryChangeResponse = z.output<typeof memoryChange>;

const revertedBlock = z
  .object({ block_id: shownId('block'), label: z.string() })
  .meta({ id: 'RevertedBlock' });

/** Result of a revert. Blocks that were already in their earlier state are in no list. */
export const revertReport = z
  .object({
    restored: z.array(revertedBlock).describe('Restored to the earlier content, as a new revision.'),
    deleted: z.array(revertedBlock).describe('Created by the batch; deleted by the revert.'),
    forced: z
      .array(revertedBlock)
      .describe('Restored blocks whose later edits or labels by others were overwritten.'),
    renamed: z.array(revertedBlock).describe('Restored to their former label.'),
    attached: z
      .array(revertedBlock.extend({ agent_id: shownId('agent') }))
      .describe('Attached again to agents that had detached them.'),
    refused: z
      .array(revertedBlock.extend({ reason: z.enum(['edited', 'deleted', 'label_taken']) }))
      .describe('Left unchanged: edited later by others, deleted, or their former label is in use.'),
    passages: z.int().describe('Archival passages that the batch had added; deleted by the revert.'),
  })
  .meta({ id: 'RevertReport', examples: [REVERT_REPORT] });
