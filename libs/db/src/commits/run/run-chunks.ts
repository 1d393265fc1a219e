import { sql } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** Maximum runs per chunk for the compose flow, when many become ready at once. */
export const RUNS_PER_CHUNK = 250;

/** Puts ready runs into chunks, one chunk per retry delay. */
export async function putReadyChunks(
  trx: Tx,
  project: string,
  ready: readonly { readonly id: string; readonly delay: number }[],
): Promise<void> {
  for (const [delayMs, runs] of Map.groupBy(ready, ({ delay }) => delay))
    await putChunk(trx, { project, kind: 'ready', runIds: runs.map((run) => run.id), delayMs });
}

/** Runs that are ready again because their steps were taken out before the send. */
export interface TakenOutRuns {
  readonly run_ids: readonly string[];
  readonly project_id: string;
  /** Time since they became due. Unit: ms. */
  readonly due_for_ms: number;
}

/** Puts runs up for sealing again, in chunks of bounded size. */
export async function putTakenOut(trx: Tx, taken: TakenOutRuns): Promise<void> {
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    select case when c.place = 0 then ${newId()}::uuid else gen_random_uuid() end, ${taken.project_id}::uuid, 'ready',
           c.run_ids, app_now() - ${taken.due_for_ms}::float8 * interval '1 millisecond'
      from (select (u.place - 1) / ${RUNS_PER_CHUNK} as place, array_agg(u.run_id order by u.place) as run_ids
              from unnest(${uuidArray(taken.run_ids)}::uuid[]) with ordinality as u(run_id, place) group by 1) c
  `.execute(trx);
}

/** Puts runs up for their next act. Called in the transaction that moved them to `ready` or `acting`. */
export async function putChunk(
  trx: Tx,
  chunk: {
    readonly project: string;
    readonly kind: 'ready' | 'tools';
    readonly runIds: readonly string[];
    readonly delayMs: number;
  },
): Promise<void> {
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    values (${newId()}::uuid, ${chunk.project}::uuid, ${chunk.kind}, ${uuidArray(chunk.runIds)}::uuid[],
            app_now() + ${chunk.delayMs}::float8 * interval '1 millisecond')
  `.execute(trx);
}
