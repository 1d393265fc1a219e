import type { Stack } from '../stack/stack.ts';
import { leaseOwnerPrefix, type StackProcess } from '../stack/processes.ts';

/** What the other workers took over from one that was killed, gathered from their logs. */
export interface Aftermath {
  /** Its name, for people. */
  readonly victim: string;
  /** Rows with a lease of the victim at the moment of its death: provider batches, chunks of runs, batches. */
  readonly held: number;
  /** Runs that stood in those rows. */
  readonly runs_held: number;
  /** Rows that somebody took over so far. */
  readonly taken_over: () => number;
  /** Result lines that were read a second time and refused, because they were applied before. */
  readonly lines_refused: () => Promise<number>;
}

/**
 * Kills a worker while it holds work, as a power cut would, and watches what becomes of that work. The worker is
 * frozen first, so that what it holds is known to be in its hands when it dies; not on Windows, which has no such thing.
 */
export async function killWorker(stack: Stack, victim: StackProcess): Promise<Aftermath> {
  let takenOver = 0;
  for (const other of stack.workers) {
    if (other === victim) continue;
    other.onLine((line) => {
      if (line.includes(`"taken_over_from":"${leaseOwnerPrefix(victim)}`)) takenOver += 1;
    });
  }
  const freezes = process.platform !== 'win32';
  const held = freezes ? await freezeHoldingWork(stack, victim) : { rows: 0, runs: 0 };
  await victim.kill();
  return {
    victim: freezes
      ? victim.name
      : `${victim.name} (not frozen first, as Windows cannot: what it held is not counted)`,
    held: held.rows,
    runs_held: held.runs,
    taken_over: () => takenOver,
    lines_refused: async () => {
      const { rows } = await stack.pool.query<{ count: number }>(
        'select coalesce(sum(lines_refused), 0)::int as count from provider_batch',
      );
      return rows[0]?.count ?? 0;
    },
  };
}

const TRIES_MS = 5_000;

/** Freezes the victim when it holds a row with runs; gives up after a few seconds and leaves it frozen as it is. */
async function freezeHoldingWork(
  stack: Stack,
  victim: StackProcess,
): Promise<{ readonly rows: number; readonly runs: number }> {
  const deadline = performance.now() + TRIES_MS;
  for (;;) {
    process.kill(victim.pid, 'SIGSTOP');
    // What the victim had sent to the database before it froze is done within a moment.
    await new Promise((resolve) => setTimeout(resolve, 30));
    const { rows } = await stack.pool.query<{ rows: number; runs: number }>(
      `select count(*)::int as rows, coalesce(sum(runs), 0)::int as runs from (
         select request_count as runs from provider_batch
          where starts_with(lease_owner, $1) and lease_until > app_now() and state in ('building', 'submitting', 'ended')
         union all
         select cardinality(run_ids) from run_chunk where starts_with(lease_owner, $1) and lease_until > app_now()) held`,
      [leaseOwnerPrefix(victim)],
    );
    const found = rows[0] ?? { rows: 0, runs: 0 };
    if (found.runs > 0 || performance.now() > deadline) return found;
    process.kill(victim.pid, 'SIGCONT');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
