import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import { uuidArray } from '../uuid-array.ts';

/** Runs that are handed to the compose flow together, where many become ready at once. */
export const RUNS_PER_CHUNK = 250;

/** Retries wait each its own time, rounded up to seconds: runs of one delay share a chunk. */
export async function putReadyChunks(
  trx: Tx,
  project: string,
  ready: readonly { readonly id: string; readonly delay: number }[],
  firstId: string,
): Promise<void> {
  const byDelay = Map.groupBy(ready, ({ delay }) => delay);
  let first = true;
  for (const [delayMs, runs] of byDelay) {
    const id = first ? firstId : null;
    first = false;
    await putChunk(trx, { id, project, kind: 'ready', runIds: runs.map((run) => run.id), delayMs });
  }
}

/** Puts runs up for the next act. Called in the transaction that moved them to `ready` or `acting`. */
export async function putChunk(
  trx: Tx,
  chunk: {
    /** Null: the database makes one (several delays in one commit, which is rare). */
    readonly id: string | null;
    readonly project: string;
    readonly kind: 'ready' | 'tools';
    readonly runIds: readonly string[];
    readonly delayMs: number;
  },
): Promise<void> {
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    values (coalesce(${chunk.id}::uuid, gen_random_uuid()), ${chunk.project}::uuid, ${chunk.kind}, ${uuidArray(chunk.runIds)}::uuid[],
            app_now() + ${chunk.delayMs}::float8 * interval '1 millisecond')
  `.execute(trx);
}
