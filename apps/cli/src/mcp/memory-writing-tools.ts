import type { HeldChange, MemoryChange, Nightshift } from '@nightshift/client';
import { z } from 'zod';
import { take } from '../take.ts';
import { describeEstimate } from './batch-tools.ts';
import { hashOf } from './confirmations.ts';
import { batchId, heldChoice, scheduleId, type runState } from './inputs.ts';
import { counted, pick, writingTool, type DryRun, type WritingTool } from './tool.ts';

/** Changes that a dry run counts and its token binds. */
const CHANGES_MAX = 10_000;
/** Changes that a dry run shows. */
const CHANGES_SHOWN = 5;

const filter = {
  agent_ids: z.array(z.string()).exactOptional().describe('Only changes of these agents; default: all'),
  block_ids: z.array(z.string()).exactOptional().describe('Only changes of these blocks; default: all'),
};

const heldFilter = {
  ...filter,
  except_ids: z.array(z.string()).exactOptional().describe('Ids of changes that stay held'),
  ...heldChoice,
};

const accept = writingTool({
  name: 'accept_held_changes',
  description:
    'Accepts memory changes of a batch that are held for review: they apply. Read them with list_held_changes first.',
  isDestructive: false,
  input: z.object({
    batch_id: batchId,
    ...heldFilter,
    on_conflict: z
      .enum(['fail', 'rebase', 'force'])
      .exactOptional()
      .describe(
        'For blocks edited since: fail (default) leaves the change held, rebase merges, force overwrites',
      ),
  }),
  dryRun: async (client, { batch_id, ...body }) => {
    const plan = await client.batches.acceptHeldChanges(batch_id, { ...body, dry_run: true });
    const held = plan.stale.length === 0 ? '' : ` ${counted(plan.stale.length, 'change')} would stay held.`;
    return seeHeld(client, batch_id, body, `would apply.${held}`, plan);
  },
  act: async (client, { batch_id, ...body }, idempotencyKey) => {
    const report = await client.batches.acceptHeldChanges(batch_id, body, { idempotencyKey });
    const stale =
      report.stale.length === 0 ? '' : ` Still held, because the block has changed: ${report.stale.length}.`;
    return { text: `Accepted: ${counted(report.accepted, 'change')}.${stale}`, data: { report } };
  },
});

const reject = writingTool({
  name: 'reject_held_changes',
  description: 'Rejects memory changes of a batch that are held for review: they are dropped for good.',
  isDestructive: true,
  input: z.object({ batch_id: batchId, ...heldFilter }),
  dryRun: async (client, { batch_id, ...body }) => {
    const plan = await client.batches.rejectHeldChanges(batch_id, { ...body, dry_run: true });
    return seeHeld(client, batch_id, body, 'would be dropped for good.', plan);
  },
  act: async (client, { batch_id, ...body }, idempotencyKey) => {
    const report = await client.batches.rejectHeldChanges(batch_id, body, { idempotencyKey });
    return { text: `Rejected: ${counted(report.rejected, 'change')}.`, data: { report } };
  },
});

const revert = writingTool({
  name: 'revert_batch',
  description:
    'Takes back the memory changes of a batch, as new revisions. Blocks that others edited later are left, unless force is true.',
  isDestructive: true,
  input: z.object({
    batch_id: batchId,
    ...filter,
    force: z.boolean().exactOptional().describe('True: overwrites later edits by others'),
  }),
  dryRun: async (client, { batch_id, ...selection }) => {
    const changes = await collect(selection, (agent) => client.batches.memoryChanges(batch_id, agent));
    const force = selection.force === true ? ' Later edits by others would be overwritten.' : '';
    return seen(changes, `would be taken back.${force}`);
  },
  act: async (client, { batch_id, ...body }, idempotencyKey) => {
    const report = await client.batches.revert(batch_id, body, { idempotencyKey });
    const { restored, deleted, refused } = report;
    return {
      text: `Restored: ${counted(restored.length, 'block')}; deleted: ${deleted.length}; left unchanged: ${refused.length}.`,
      data: { report },
    };
  },
});

const runSchedule = writingTool({
  name: 'run_schedule',
  description: 'Starts the batch of a schedule now, beside its times. The dry run tells its runs and cost.',
  isDestructive: false,
  input: z.object({ schedule_id: scheduleId }),
  dryRun: async (client, { schedule_id }) => {
    const schedule = await client.schedules.retrieve(schedule_id);
    const estimate = await client.batches.estimate(schedule.body);
    return {
      text: `Schedule ${schedule.name} would start ${describeEstimate(estimate)}`,
      data: { estimate, schedule: pick(schedule, 'id', 'name', 'description', 'state', 'body', 'last_tick') },
      state: [schedule.revision, estimate.runs],
    };
  },
  act: async (client, { schedule_id }, key) => {
    const tick = await client.schedules.runNow(schedule_id, { idempotencyKey: key });
    return {
      text: `The tick is ${tick.outcome}${tick.job_id === null ? '' : `: ${tick.job_id}`}.`,
      data: { tick },
    };
  },
});

interface Selection {
  readonly agent_ids?: readonly string[];
  readonly block_ids?: readonly string[];
}

interface HeldSelection extends Selection {
  readonly except_ids?: readonly string[];
  readonly label?: string;
  readonly shrunk?: boolean;
  readonly stale?: boolean;
  readonly run_state?: z.output<typeof runState>;
  readonly q?: string;
  readonly change_group?: string;
}

/** Shows the changes that a request would settle; `plan` is the API's answer of a dry run. */
async function seeHeld(
  client: Nightshift,
  batchId: string,
  { agent_ids, block_ids, ...selection }: HeldSelection,
  effect: string,
  plan: { readonly passages: number },
): Promise<DryRun> {
  const { label, shrunk, stale, run_state, q, change_group, except_ids = [] } = selection;
  const choice = Object.fromEntries(
    Object.entries({ label, shrunk, stale, run_state, q, change_group }).filter(([, value]) => value != null),
  );
  const chosen = { ...(agent_ids && { agent_ids }), ...(block_ids && { block_ids }) };
  const changes = await collect(chosen, (agent) =>
    client.batches.heldChanges(batchId, { ...choice, ...agent, state: 'held' }),
  );
  const { text, data, state } = seen(
    changes.filter(({ id }) => !except_ids.includes(id)),
    effect,
  );
  const passages =
    plan.passages === 0 ? '' : ` So would ${counted(plan.passages, 'passage')} of archival memory.`;
  return { text: `${text}${passages}`, data: { ...data, plan }, state: [state, plan] };
}

/** Reads the selected changes, at most one more than {@link CHANGES_MAX}. */
async function collect<Change extends HeldChange | MemoryChange>(
  { agent_ids, block_ids }: Selection,
  list: (query: { readonly agent_id?: string; readonly limit: number }) => AsyncIterable<Change>,
): Promise<readonly Change[]> {
  async function* all(): AsyncGenerator<Change, void> {
    for (const query of agent_ids?.map((agent_id) => ({ agent_id })) ?? [{}])
      for await (const change of list({ ...query, limit: 100 }))
        if (block_ids === undefined || block_ids.includes(change.block_id ?? change.id)) yield change;
  }
  const changes: Change[] = [];
  for await (const change of take(all(), CHANGES_MAX + 1)) changes.push(change);
  return changes;
}

/** Describes changes; the token holds while they stay the same. */
function seen(changes: readonly (HeldChange | MemoryChange)[], effect: string): DryRun {
  const shown = changes.slice(0, CHANGES_MAX);
  const more = changes.length > CHANGES_MAX ? 'More than ' : '';
  const agents = new Set(shown.map(({ agent_id }) => agent_id));
  const shrunk = shown.filter((change) => change.shrunk).length;
  return {
    text: `${more}${counted(shown.length, 'change')} of ${counted(agents.size, 'agent')} ${effect}`,
    data: {
      changes: shown.length,
      is_partial_count: more !== '',
      agents: agents.size,
      shrunk,
      first_changes: shown
        .slice(0, CHANGES_SHOWN)
        .map((change) => pick(change, 'agent_id', 'block_id', 'label', 'diff', 'shrunk')),
    },
    // All of a change: a text may be edited without a new revision.
    state: changes.map(hashOf),
  };
}

/** Writing tools of held changes, reverts and schedules. */
export const MEMORY_WRITING_TOOLS: readonly WritingTool[] = [accept, reject, revert, runSchedule];
