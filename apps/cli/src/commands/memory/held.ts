import type { HeldChange, HeldFilter, ListHeldChangesData } from '@nightshift/client';
import type { Command } from 'commander';
import { gatherList } from '../../parse.ts';
import type { Session } from '../../session.ts';

/** Flags that choose held changes. */
export interface HeldFlags {
  readonly agent?: string;
  readonly block?: string;
  readonly label?: string;
  readonly shrunk?: true;
  readonly notShrunk?: true;
  readonly stale?: true;
  readonly notStale?: true;
  readonly runState?: readonly string[];
  readonly text?: string;
  readonly sort?: string;
}

/** Adds the flags that choose held changes. */
export function addHeldFlags(command: Command): Command {
  return command
    .option('--agent <id>', 'changes of this agent only')
    .option('--block <id>', 'changes of this block only')
    .option('--label <label>', 'changes of blocks with this label only')
    .option('--shrunk', 'changes that removed most of a text only')
    .option('--not-shrunk', 'all other changes only')
    .option('--stale', 'changes whose block has changed since only')
    .option('--not-stale', 'all other changes only')
    .option(
      '--run-state <state>',
      'changes of runs in this state only; several with commas between',
      gatherList,
    )
    .option('--text <text>', "changes with this text in label, agent's name or new text only");
}

type Query = NonNullable<ListHeldChangesData['query']>;
type Choice = Pick<Query, 'agent_id' | 'block_id' | 'label' | 'shrunk' | 'stale' | 'run_state' | 'q'>;

/** The filters of a request per run state: the API takes one state. */
export function choicesOf({ runState, ...flags }: HeldFlags): readonly Choice[] {
  const { agent, block, label, text } = flags;
  const choice: Choice = {
    ...(agent !== undefined && { agent_id: agent }),
    ...(block !== undefined && { block_id: block }),
    ...(label !== undefined && { label }),
    ...(flags.shrunk && { shrunk: true }),
    ...(flags.notShrunk && { shrunk: false }),
    ...(flags.stale && { stale: true }),
    ...(flags.notStale && { stale: false }),
    ...(text !== undefined && { q: text }),
  };
  if (runState === undefined) return [choice];
  return runState.map((run_state) => ({
    ...choice,
    run_state: run_state as NonNullable<Query['run_state']>,
  }));
}

/** Returns the filter of an accept or reject. */
export function filterOf({ agent_id, block_id, ...choice }: Choice): HeldFilter {
  return {
    ...choice,
    ...(agent_id !== undefined && { agent_ids: [agent_id] }),
    ...(block_id !== undefined && { block_ids: [block_id] }),
  };
}

/** Page of a listing without a reader who waits. */
const PAGE_MAX = 200;

/** Lists the chosen changes of a batch that are still held, riskiest first unless the flags say otherwise. */
export async function* listHeld(
  { client }: Session,
  batchId: string,
  flags: HeldFlags,
  { limit = PAGE_MAX, include }: Pick<Query, 'limit' | 'include'> = {},
): AsyncGenerator<HeldChange, void, undefined> {
  const sort = flags.sort === 'created_at' ? 'created_at' : 'risk';
  for (const choice of choicesOf(flags))
    yield* client.batches.heldChanges(batchId, {
      ...choice,
      state: 'held',
      sort,
      limit,
      ...(include !== undefined && { include }),
    });
}

/** Counts the chosen changes that are still held. */
export async function countHeld({ client }: Session, batchId: string, flags: HeldFlags): Promise<number> {
  let held = 0;
  for (const choice of choicesOf(flags))
    held += (await client.batches.heldSummary(batchId, { ...choice, state: 'held', groups: 0 })).states.held;
  return held;
}
