import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, WITHOUT_FAILURE } from '../../fragments.ts';
import { IS_OVERDUE } from '../../reads/due-conditions.ts';
import { addToTallies, talliesOfPassing, tallySlot } from '../batch/tallies.ts';
import { keepInputOf } from './keep-input.ts';
import { NONE_PASSED_ON, passConversationsOn } from './pass-conversations.ts';
import { putChunk } from './run-chunks.ts';

/** The result of a look for runs past their deadline. */
export interface OverdueReport {
  readonly ended: number;
  /** Runs handed to the flow that ends calls. */
  readonly released: number;
  /** Runs that got a conversation. */
  readonly started: number;
  readonly ended_batch_ids: readonly string[];
}

/**
 * Ends up to `limit` waiting runs past their deadline, or asked to be cancelled, of any batch or of one.
 * `queued` and `ready` runs fail with `deadline`, or are cancelled. Runs that await their caller go to the workers, which make the approved
 * calls, answer the others as not made, and end the runs. Runs at the provider or in a tool end when the answer arrives.
 * Locks: runs in id order, with skip locked, then conversations, then batch counts. Index: `run_by_deadline`.
 */
export async function commitOverdueRuns(
  trx: Tx,
  limit: number,
  slot = tallySlot(),
  batchId: string | null = null,
): Promise<OverdueReport> {
  const isOurs = batchId === null ? sql`true` : sql`batch_id = ${batchId}::uuid`;
  const { rows } = await sql<Overdue>`
    with due ${AS_FIRST} (
      -- In index order, which stops at the first deadline in the future; in id order every run would be read.
      select id from run
       where ${IS_OVERDUE} and ${isOurs}
       order by overdue_from limit ${limit}),
    overdue ${AS_FIRST} (
      select id, state, cancel_requested_at is not null as cancelled, started_at is not null as held,
             failing_since is not null as failing from run
       where id = any(array(select id from due))
         and ${IS_OVERDUE}
       order by id
         for no key update skip locked),
    ${keepInputOf('overdue')},
    moved as (
      update run r
         set state = case when o.state = 'requires_action' then 'acting' when o.cancelled then 'cancelled' else 'failed' end,
             stop_reason = case when o.state = 'requires_action' then null when o.cancelled then 'cancelled' else 'deadline' end,
             error = case when o.state <> 'requires_action' and not o.cancelled
                     then json_build_object('message', 'The run passed its deadline before it was done.') end,
             ended_at = case o.state when 'requires_action' then null else app_now() end,
             overdue_from = case o.state when 'requires_action' then r.overdue_from end, ${WITHOUT_FAILURE}
        from overdue o where r.id = any(array(select id from overdue)) and r.id = o.id
      returning r.id, r.project_id, r.batch_id, r.conversation_id, o.held, o.failing, o.state as was, r.state)
    select id, project_id, batch_id, conversation_id, held, failing, was, state from moved
  `.execute(trx);
  const [first] = rows;
  if (first === undefined) return { ended: 0, released: 0, started: 0, ended_batch_ids: [] };
  const released = rows.filter((run) => run.state === 'acting').map((run) => run.id);
  if (released.length > 0) {
    const { project_id } = first;
    await putChunk(trx, {
      project: project_id,
      kind: 'tools',
      runIds: released,
      delayMs: 0,
    });
  }
  const ended = rows.filter((run) => run.state !== 'acting');
  const holders = ended.filter((run) => run.held);
  const passed =
    holders.length === 0
      ? NONE_PASSED_ON
      : await passConversationsOn(
          trx,
          holders.map((run) => run.conversation_id),
          holders.map((run) => run.id),
        );
  const left = rows.map(({ id, batch_id, project_id, was, state, failing }) => ({
    batch_id,
    project_id,
    ...(state === 'acting' ? {} : { ended_run_id: id, [state]: 1 }),
    ...(was === 'ready' ? {} : { [was]: -1 }),
    retrying: failing ? -1 : 0,
  }));
  await addToTallies(trx, [...left, ...talliesOfPassing(passed)], slot);
  const ended_batch_ids = [...new Set([...ended, ...passed.cancelled].map((run) => run.batch_id))];
  return { ended: ended.length, released: released.length, started: passed.started.length, ended_batch_ids };
}

interface Overdue {
  readonly id: string;
  readonly project_id: string;
  readonly batch_id: string;
  readonly conversation_id: string;
  readonly held: boolean;
  readonly failing: boolean;
  readonly was: 'queued' | 'ready' | 'requires_action';
  readonly state: 'failed' | 'cancelled' | 'acting';
}
