import { isRunEnded, listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { CHANGES_MAX, pageLimit } from '../paging.ts';
import { ACCEPT_REPORT, HELD_CHANGE } from './examples/batches.ts';
import { AGENT_ID, DRAFT_ID } from './examples/ids.ts';
import { shownId, UUID, wireId } from './ids.ts';
import { change } from './memory.ts';
import { shownTime } from './moment.ts';
import { endedReason, runState } from './run.ts';

const heldState = z.enum(['held', 'accepted', 'rejected']);
const standingReason = z.enum(['edited', 'deleted', 'read_only', 'over_limit']);

const staleness = z
  .object({
    reason: standingReason.describe(
      '`edited`: text, description or label differ from those that the agent changed. `deleted`: the block is gone. ' +
        '`read_only`: it no longer accepts writes. `over_limit`: its limit is now below the proposed text.',
    ),
    revision: z.int().describe('Present revision of the block.'),
    written_by: z
      .enum(['run', 'api'])
      .describe('Writer of that revision: a tool call of a run, or another API client.'),
    job_id: shownId('job').nullable().describe('Batch of the writing run; null for an API client.'),
    run_id: shownId('run').nullable(),
    written_at: shownTime,
  })
  .meta({ id: 'HeldChangeStaleness' });

const sides = z
  .object({
    worked_from: z.string().nullable().describe('Text that the agent changed; null for a new block.'),
    proposed: z.string().nullable().describe('Text after an accept; null if the agent gives up the block.'),
    now: z.string().nullable().describe('Present text of the block; null for a new or deleted block.'),
  })
  .meta({ id: 'HeldChangeValues' });

/** A held change: all calls of an agent on a block, in a batch under review. */
export const heldChange = z
  .object({
    id: shownId('block').describe('Id of the change, and cursor for pages.'),
    state: heldState,
    kind: z
      .enum(['revised', 'created', 'detached', 'dropped'])
      .describe(
        '`detached`: the agent detaches the block. `dropped`: the agent created the block and dropped it again.',
      ),
    agent_id: shownId('agent'),
    agent_name: z.string(),
    block_id: shownId('block').nullable().describe('Null for a new block.'),
    label_before: z.string().nullable(),
    description: z.string().nullable(),
    description_before: z.string().nullable(),
    ...change,
    run_id: shownId('run').describe(
      'Run whose call first changed the block, or last renamed or detached it. Other runs of the agent in the batch ' +
        'may have written to it too.',
    ),
    custom_id: z.string().nullable().describe("The caller's id of the request; null if none."),
    run_state: runState.describe("The run's `state`, not Letta's status."),
    stop_reason: endedReason.nullable().describe("The run's `ended_reason`; null until it has ended."),
    created_at: shownTime,
    settled_at: shownTime.nullable(),
    edited_at: shownTime.nullable().describe('Time of the last edit by a caller; null if none.'),
    change_group: z
      .string()
      .describe('The same for equal changes: same kind, label, description, text before and text after.'),
    stale: z
      .boolean()
      .describe('True for a held change that an accept would refuse, because its block has changed since.'),
    stale_because: staleness.nullable(),
    values: sides.nullable().describe('Null unless `include=values`.'),
  })
  .meta({ id: 'HeldChange', examples: [HELD_CHANGE] });
export type HeldChangeResponse = z.output<typeof heldChange>;

const changeGroup = z
  .string()
  .regex(/^[0-9a-f]{32}$/, 'must be the change_group of a held change or of the summary');

const CHOICE = {
  label: z.string().min(1).max(100).optional().describe('Exact label of the changed block.'),
  shrunk: z.boolean().optional(),
  stale: z.boolean().optional().describe('True: only held changes whose block has changed since.'),
  run_state: runState.optional(),
  ended_reason: endedReason.optional(),
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Text in the label, the agent's name or the proposed text; upper and lower case are equal."),
  change_group: changeGroup.optional().describe('Only changes equal to each other.'),
};

const FILTER = {
  state: heldState.optional(),
  agent_id: wireId('agent').optional(),
  block_id: wireId('block').optional(),
  ...CHOICE,
};

/** A cursor: the id of a change, and in the order of risk its place there, `block-<uuid>@<place>`. */
const heldCursor = z
  .string()
  .regex(
    new RegExp(`^block-${UUID}(@-?[0-9]{1,15})?$`),
    'must be the id of a change, or a cursor of a Link header',
  )
  .transform((cursor) => {
    const [id = '', place] = cursor.split('@');
    return { draft_id: id.slice('block-'.length), risk_place: place === undefined ? null : Number(place) };
  });

interface Combination {
  readonly state?: string | null | undefined;
  readonly stale?: boolean | null | undefined;
  readonly run_state?: z.output<typeof runState> | null | undefined;
  readonly ended_reason?: string | null | undefined;
}

/** Refuses filters that exclude each other. */
function refuseContradictions(
  { state, stale, run_state, ended_reason }: Combination,
  context: z.RefinementCtx,
) {
  if (stale === true && state != null && state !== 'held')
    context.addIssue({
      code: 'custom',
      path: ['stale'],
      message: `excludes state=${state}: only held changes can be stale. Leave one of the two out`,
    });
  if (ended_reason != null && run_state != null && !isRunEnded(run_state))
    context.addIssue({
      code: 'custom',
      path: ['ended_reason'],
      message: `excludes run_state=${run_state}: such a run has not ended. Leave one of the two out`,
    });
}

/** Query of a list of held changes. */
export const heldChangesQuery = z
  .strictObject({
    after: heldCursor
      .optional()
      .describe(
        'Id of an item; the page holds the items after it. With `sort=risk`, take the cursor of the `Link` header: it keeps ' +
          'its place when the item is settled or becomes stale meanwhile.',
      ),
    before: heldCursor.optional().describe('Id of an item; the page holds the items just before it.'),
    limit: pageLimit(50, CHANGES_MAX),
    order: z.enum(['asc', 'desc']).optional().describe('Default: `asc`. Not with `sort=risk`.'),
    sort: z
      .enum(['created_at', 'risk'])
      .default('created_at')
      .describe(
        '`risk`: riskiest first: stale changes, then those of runs that did not complete, then shrunk ones, then the most ' +
          'characters removed. A change that becomes stale while you page moves to the front.',
      ),
    include: z
      .literal('values')
      .optional()
      .describe('Adds `values`: the text worked from, the proposed text and the present text.'),
    ...FILTER,
  })
  .superRefine((query, context) => {
    refuseContradictions(query, context);
    if (query.sort === 'risk' && query.order !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['order'],
        message: 'cannot be used with sort=risk, which lists the riskiest first. Leave it out',
      });
    for (const side of ['after', 'before'] as const)
      if (query.sort !== 'risk' && query[side]?.risk_place != null)
        context.addIssue({
          code: 'custom',
          path: [side],
          message: 'is a cursor of a list with sort=risk. Send the same sort',
        });
  });

/** Query of the summary of held changes. */
export const heldSummaryQuery = z
  .strictObject({
    ...FILTER,
    groups: z.int().min(0).max(100).default(10).describe('Most groups of equal changes.'),
  })
  .superRefine(refuseContradictions);

const SUMMARY = {
  total: 411,
  states: { held: 400, accepted: 11, rejected: 0 },
  shrunk: 3,
  stale: 1,
  run_states: { completed: 411 },
  labels: [{ label: 'summary', changes: 411 }],
  groups_total: 200,
  groups: [
    {
      change_group: '0f343b0931126a20f133d67c2b018a3b',
      changes: 212,
      held: 212,
      label: 'summary',
      sample_id: DRAFT_ID,
    },
  ],
};

export const heldSummary = z
  .object({
    total: z.int(),
    states: z.object({ held: z.int(), accepted: z.int(), rejected: z.int() }),
    shrunk: z.int(),
    stale: z.int(),
    run_states: z.partialRecord(runState, z.int()),
    labels: z
      .array(z.object({ label: z.string(), changes: z.int() }))
      .describe('The 100 most frequent labels.'),
    groups_total: z.int().describe('Number of different changes.'),
    groups: z
      .array(
        z.object({
          change_group: z.string(),
          changes: z.int(),
          held: z.int(),
          label: z.string(),
          sample_id: shownId('block').describe('Id of the oldest change of the group.'),
        }),
      )
      .describe('Groups of equal changes, the largest first.'),
  })
  .meta({ id: 'HeldSummary', examples: [SUMMARY] });
export type HeldSummaryResponse = z.output<typeof heldSummary>;

/** The body of an edit. */
export const heldEdit = z
  .strictObject({
    value: z.string().describe('The new proposed text.'),
    expected: z
      .string()
      .nullish()
      .describe(
        'The proposed text that you edited; 409 if it is another by now, and not yet `value`. Default: not checked.',
      ),
  })
  .meta({
    id: 'HeldChangeEdit',
    examples: [{ value: 'Name: Ann. Lives in Berlin.', expected: 'Name: Ann. Moves to Berlin in May.' }],
  });

const ids = (prefix: 'agent' | 'block') => listOf(wireId(prefix), 10_000).min(1).nullish();

const heldFilterFields = z.strictObject({
  agent_ids: ids('agent').describe('Agents of the batch.'),
  block_ids: ids('block').describe(
    '`block_id` of each change. For a new block, which has no id yet: the `id` of its change.',
  ),
  change_ids: ids('block').describe('`id` of each change.'),
  except_ids: ids('block').describe(
    '`id` of each change to leave out. Passages of their agents stay held too.',
  ),
  label: CHOICE.label.nullable(),
  shrunk: CHOICE.shrunk.nullable(),
  stale: CHOICE.stale.nullable(),
  run_state: CHOICE.run_state.nullable(),
  ended_reason: CHOICE.ended_reason.nullable(),
  q: CHOICE.q.nullable(),
  change_group: CHOICE.change_group.nullable(),
  dry_run: z
    .boolean()
    .nullish()
    .describe('True: answers what the request would do, and changes nothing. Default: false.'),
});

/** Selection of the held changes to settle; default: all of the batch. */
export const heldFilter = heldFilterFields
  .superRefine(refuseContradictions)
  .meta({ id: 'HeldFilter', examples: [{ agent_ids: [AGENT_ID] }] })
  .nullish();
export type HeldFilterInput = z.output<typeof heldFilter>;

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
  .superRefine(refuseContradictions)
  .meta({ id: 'AcceptInput', examples: [{ stale: false, except_ids: [DRAFT_ID], on_conflict: 'rebase' }] })
  .nullish();

export const acceptReport = z
  .object({
    accepted: z.int(),
    passages: z.int().describe('Archival passages that agents find from now on.'),
    stale: z
      .array(
        z.object({
          agent_id: shownId('agent'),
          block_id: shownId('block').nullable(),
          label: z.string(),
          reason: z.enum(['edited', 'deleted', 'read_only', 'over_limit', 'label_taken']),
        }),
      )
      .describe(
        "Not applied and still held: the block has changed since the agent's request, or no longer accepts such a change.",
      ),
  })
  .meta({ id: 'AcceptReport', examples: [ACCEPT_REPORT] });

export const rejectReport = z
  .object({ rejected: z.int(), passages: z.int().describe('Archival passages that were dropped.') })
  .meta({ id: 'RejectReport', examples: [{ rejected: 3, passages: 0 }] });
