import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { wireId } from './ids.ts';
import { endedReason, runState } from './run.ts';

/** Writer of a revision: a tool call of a run; all null for other API clients. */
const writer = {
  resolution: z
    .enum(['clean', 'merged', 'overwrote'])
    .nullable()
    .describe("How a tool call's write was resolved; null for other writes."),
  job_id: z.string().nullable(),
  run_id: z.string().nullable(),
  agent_id: z.string().nullable(),
  step_id: z.string().nullable(),
  tool_call_id: z.string().nullable(),
  created_at: z.string(),
};

/** A write of a block, without its text. */
export const blockRevision = z
  .object({
    block_id: z.string(),
    revision: z.int(),
    description: z.string().nullable(),
    limit: z.int(),
    read_only: z.boolean(),
    based_on: z.int().nullable().describe('The revision that the writer saw; null for the first.'),
    ...writer,
  })
  .meta({ id: 'BlockRevision' });
export type BlockRevision = z.output<typeof blockRevision>;

export const blockRevisionWithValue = blockRevision
  .extend({ value: z.string() })
  .meta({ id: 'BlockRevisionWithValue' });

const change = {
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
export const blockDiff = z.object({ block_id: z.string(), ...change }).meta({ id: 'BlockDiff' });

/** A memory write of a batch, for review. */
export const memoryChange = z
  .object({
    id: z.string().describe('Id of the write, and cursor for pages.'),
    block_id: z.string(),
    ...change,
    ...writer,
  })
  .meta({ id: 'MemoryChange' });
export type MemoryChangeResponse = z.output<typeof memoryChange>;

const revertedBlock = z.object({ block_id: z.string(), label: z.string() }).meta({ id: 'RevertedBlock' });

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
      .array(revertedBlock.extend({ agent_id: z.string() }))
      .describe('Attached again to agents that had detached them.'),
    refused: z
      .array(revertedBlock.extend({ reason: z.enum(['edited', 'deleted', 'label_taken']) }))
      .describe('Left unchanged: edited later by others, deleted, or their former label is in use.'),
    passages: z.int().describe('Archival passages that the batch had added; deleted by the revert.'),
  })
  .meta({ id: 'RevertReport' });

/** A held change: all calls of an agent on a block, in a batch under review. */
export const heldChange = z
  .object({
    id: z.string().describe('Id of the change, and cursor for pages.'),
    state: z.enum(['held', 'accepted', 'rejected']),
    kind: z
      .enum(['revised', 'created', 'detached', 'dropped'])
      .describe(
        '`detached`: the agent detaches the block. `dropped`: the agent created the block and dropped it again.',
      ),
    agent_id: z.string(),
    block_id: z.string().nullable().describe('Null for a new block.'),
    label_before: z.string().nullable(),
    description: z.string().nullable(),
    description_before: z.string().nullable(),
    ...change,
    run_id: z
      .string()
      .describe(
        'Run whose call first changed the block, or last renamed or detached it. Other runs of the agent in the batch ' +
          'may have written to it too.',
      ),
    custom_id: z.string().nullable().describe("The caller's id of the request; null if none."),
    run_state: runState.describe("The run's `state`, not Letta's status."),
    stop_reason: endedReason.nullable().describe("The run's `ended_reason`; null until it has ended."),
    created_at: z.string(),
    settled_at: z.string().nullable(),
  })
  .meta({ id: 'HeldChange' });
export type HeldChangeResponse = z.output<typeof heldChange>;

const heldFilterFields = z.strictObject({
  agent_ids: listOf(wireId('agent'), 10_000).min(1).nullish().describe('Agents of the batch.'),
  block_ids: listOf(wireId('block'), 10_000)
    .min(1)
    .nullish()
    .describe('`block_id` of each change. For a new block, which has no id yet: the `id` of its change.'),
});

/** Filter of the held changes to settle; default: all of the batch. */
export const heldFilter = heldFilterFields.meta({ id: 'HeldFilter' }).nullish();

/** What is accepted, and what happens to changes of blocks that were edited meanwhile. */
export const acceptInput = heldFilterFields
  .extend({
    on_conflict: z
      .enum(['fail', 'rebase', 'force'])
      .default('fail')
      .describe(
        'A change of a block that has been edited since the agent saw it: `fail` reports it, and it stays held; `rebase` ' +
          'merges it with the present text by lines, and fails if both changed the same lines; `force` overwrites the edits. ' +
          'One request rebases or forces at most 100 changes of a block; further ones stay held and are listed, so repeat it.',
      ),
  })
  .meta({ id: 'AcceptInput' })
  .nullish();

export const acceptReport = z
  .object({
    accepted: z.int(),
    passages: z.int().describe('Archival passages that agents find from now on.'),
    stale: z
      .array(
        z.object({
          agent_id: z.string(),
          block_id: z.string().nullable(),
          label: z.string(),
          reason: z.enum(['edited', 'deleted', 'read_only', 'over_limit', 'label_taken']),
        }),
      )
      .describe(
        "Not applied and still held: the block has changed since the agent's request, or no longer accepts such a change.",
      ),
  })
  .meta({ id: 'AcceptReport' });

export const rejectReport = z.object({ rejected: z.int() }).meta({ id: 'RejectReport' });
