import type pg from 'pg';
import type { Stack } from '../stack/stack.ts';
import type { Check } from './checks.ts';
import { leaseOwnerPrefix, type StackProcess } from '../stack/processes.ts';

/** Takeover of a killed worker's work, read from the other workers' logs. */
export interface Aftermath {
  /** Name for the output. */
  readonly victim: string;
  readonly pid: number;
  /** Name of a remaining worker. */
  readonly survivor: string;
  /** Rows that the victim leased when it died: provider batches, chunks of runs, batches. */
  readonly held: number;
  /** Runs of these rows. */
  readonly runs_held: number;
  /** Returns the number of rows that another worker has taken over. */
  readonly taken_over: () => number;
  /** Returns the number of result lines that were read again and refused since. */
  readonly lines_refused: () => Promise<number>;
}

/**
 * Kills a worker that holds work and watches the takeover. Returns null without workers.
 * The worker is paused first, so that its rows are known when it dies; Windows cannot pause.
 */
export async function killWorker(stack: Stack): Promise<Aftermath | null> {
  const freezes = process.platform !== 'win32';
  const [survivor, last] = stack.workers;
  if (survivor === undefined || last === undefined) return null;
  const { victim, rows, runs } = freezes
    ? await freezeHoldingWork(stack)
    : { victim: last, rows: 0, runs: 0 };
  let takenOver = 0;
  const others = stack.workers.filter((other) => other !== victim);
  for (const other of others) {
    other.onLine((line) => {
      if (line.includes(`"taken_over_from":"${leaseOwnerPrefix(victim)}`)) takenOver += 1;
    });
  }
  const refusedBefore = await countRefusedLines(stack.pool);
  await victim.kill();
  return {
    victim: freezes
      ? victim.name
      : `${victim.name} (not frozen first, as Windows cannot: what it held is not counted)`,
    pid: victim.pid,
    survivor: others[0]?.name ?? survivor.name,
    held: rows,
    runs_held: runs,
    taken_over: () => takenOver,
    lines_refused: async () => (await countRefusedLines(stack.pool)) - refusedBefore,
  };
}

/** Counts refused lines of all provider batches, earlier starts included. */
async function countRefusedLines(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select coalesce(sum(lines_refused), 0)::int as count from provider_batch',
  );
  return rows[0]?.count ?? 0;
}

/**
 * Describes a crash and its check. The check is null when the worker held nothing. `appliedTwice`: steps that
 * the database counts as applied twice.
 */
export async function describeCrash(
  { victim, held, runs_held, taken_over, lines_refused }: Aftermath,
  appliedTwice: number,
): Promise<{ readonly text: string; readonly check: Check | null }> {
  if (held === 0) {
    return {
      text: `${victim} was killed with nothing known to be in its hands: what becomes of held work was not shown this time.`,
      check: null,
    };
  }
  return {
    text:
      `${victim} was killed with ${held} row${held === 1 ? '' : 's'} in hand (${runs_held} runs): ` +
      `${taken_over()} taken over by the other worker, ${await lines_refused()} result lines read again and refused as already applied, ${appliedTwice} steps applied twice.`,
    check: {
      claim: 'what the killed worker held went on',
      holds: taken_over() > 0,
      detail: `${taken_over()} of ${held} taken over`,
    },
  };
}

/** Milliseconds without a step before the reason is shown. */
const QUIET_MS = 1_000;

/** Returns the reason why a batch makes no progress; null when it does, or without a known reason. */
export function waitsFor(aftermath: Aftermath | null, quietMs: number): string | null {
  const isHeldBack = aftermath !== null && aftermath.taken_over() < aftermath.held;
  return isHeldBack && quietMs >= QUIET_MS ? 'waits for a lease' : null;
}

const TRIES_MS = 5_000;

/**
 * Pauses a worker that holds a row with runs, trying one after the other. After a few seconds it returns the
 * last tried worker, paused.
 */
async function freezeHoldingWork(
  stack: Stack,
): Promise<{ readonly victim: StackProcess; readonly rows: number; readonly runs: number }> {
  const deadline = performance.now() + TRIES_MS;
  for (let turn = 0; ; turn++) {
    const victim = stack.workers.at(-1 - (turn % stack.workers.length));
    if (victim === undefined) throw new Error('There is no worker to kill.');
    if (!victim.freeze()) throw new Error(`${victim.name} has ended by itself. Its log: ${victim.logFile}`);
    // Statements that the victim sent before its pause end within a moment.
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
    if (found.runs > 0) return { victim, ...found };
    if (performance.now() > deadline) return { victim, rows: 0, runs: 0 };
    victim.thaw();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
