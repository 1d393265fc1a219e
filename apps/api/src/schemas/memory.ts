import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { wireId } from './ids.ts';
import { endedReason, runState } from './run.ts';

/** Who wrote a revision: a tool call of a run, or, with nulls, a person or program at this API. */
const writer = {
  resolution: z
    .enum(['clean', 'merged', 'overwrote'])
    .nullable()
    .describe('How the write of a tool call came to its value; null for other writes.'),
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
    based_on: z.int().nullable().describe('The revision that the writer had seen; null for the first.'),
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
  diff: z.string().describe('Unified diff; empty where the text is the same.'),
  chars_before: z.int(),
  chars_after: z.int(),
  lines_added: z.int(),
  lines_removed: z.int(),
  shrunk: z
    .boolean()
    .describe(
      'Whether so much of the text went that somebody should look: three fifths of at least 200 characters.',
    ),
};

/** The difference of two revisions of one block. */
export const blockDiff = z.object({ block_id: z.string(), ...change }).meta({ id: 'BlockDiff' });

/** A write of a batch, as people review it. */
export const memoryChange = z
  .object({
    id: z.string().describe('Names the write; pages go on from it.'),
    block_id: z.string(),
    ...change,
    ...writer,
  })
  .meta({ id: 'MemoryChange' });
export type MemoryChangeResponse = z.output<typeof memoryChange>;

const revertedBlock = z.object({ block_id: z.string(), label: z.string() }).meta({ id: 'RevertedBlock' });

/** What a revert did; blocks that already stood as before the batch are in no list. */
export const revertReport = z
  .object({
    restored: z.array(revertedBlock).describe('Hold again what stood before, as a new revision.'),
    deleted: z.array(revertedBlock).describe('Made by the batch, and deleted now.'),
    forced: z.array(revertedBlock).describe('Those whose later edits or labels by others were written over.'),
    renamed: z.array(revertedBlock).describe('Have their former label again.'),
    attached: z
      .array(revertedBlock.extend({ agent_id: z.string() }))
      .describe('Had been given up by an agent that has them again.'),
    refused: z
      .array(revertedBlock.extend({ reason: z.enum(['edited', 'deleted', 'label_taken']) }))
      .describe('Left as they are: edited by others since, deleted, or their former label is used.'),
    passages: z.int().describe('Passages of archival memory that the batch had kept, deleted now.'),
  })
  .meta({ id: 'RevertReport' });

/** What an agent has changed of one block in a batch under review, all its calls together. */
export const heldChange = z
  .object({
    id: z.string().describe('Names the change; pages go on from it.'),
    state: z.enum(['held', 'accepted', 'rejected']),
    kind: z
      .enum(['revised', 'created', 'detached', 'dropped'])
      .describe('`detached`: the agent gives the block up. `dropped`: it made one and gave it up again.'),
    agent_id: z.string(),
    block_id: z.string().nullable().describe('Null for a new block.'),
    label_before: z.string().nullable(),
    description: z.string().nullable(),
    description_before: z.string().nullable(),
    ...change,
    run_id: z
      .string()
      .describe(
        'Whose call first changed the block, or last renamed it or gave it up. Other runs of the agent in the batch may have ' +
          'written to it too.',
      ),
    custom_id: z
      .string()
      .nullable()
      .describe("The caller's name for the request of the run; null where it has none."),
    run_state: runState.describe("The state of the run, as in its `state`; not Letta's status."),
    stop_reason: endedReason
      .nullable()
      .describe('Why the run ended, as in its `ended_reason`; null until it has.'),
    created_at: z.string(),
    settled_at: z.string().nullable(),
  })
  .meta({ id: 'HeldChange' });
export type HeldChangeResponse = z.output<typeof heldChange>;

/** Which held changes to settle; without any, all of the batch. */
export const heldFilter = z
  .strictObject({
    agent_ids: listOf(wireId('agent'), 10_000).min(1).nullish().describe('Agents of the batch.'),
    block_ids: listOf(wireId('block'), 10_000)
      .min(1)
      .nullish()
      .describe(
        'Each the `block_id` of a change; of a new block, which has none yet, the `id` of its change.',
      ),
  })
  .meta({ id: 'HeldFilter' })
  .nullish();

export const acceptReport = z
  .object({
    accepted: z.int(),
    passages: z.int().describe('Passages of archival memory that their agents find from now on.'),
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
        'Not in force, and still held: the block is no longer what the agent worked from, or takes no such change any more.',
      ),
  })
  .meta({ id: 'AcceptReport' });

export const rejectReport = z.object({ rejected: z.int() }).meta({ id: 'RejectReport' });
