import { existsSync, readFileSync } from 'node:fs';
import type pg from 'pg';
import { auditInvariants, type Database } from '../../libs/db/src/index.ts';

/** The books after the storm, ours and the provider's. */
export interface Verdict {
  readonly runs: number;
  readonly steps: number;
  /** Runs that have not ended well. */
  readonly lost: number;
  /** Step numbers with more than one applied attempt, and `once` effects that happened more than once. */
  readonly duplicated: number;
  /** Steps that the provider billed more than once, beyond what is booked as an orphan. */
  readonly paid_twice: number;
  readonly orphans_booked: number;
  readonly orphans_adopted: number;
  readonly violations: readonly string[];
  /** Deadlocks of our own statements, and of the queue's. */
  readonly deadlocks: number;
  readonly deadlocks_of_queue: number;
}

interface Ledger {
  readonly totals: { readonly requests: number };
  readonly repeats: readonly {
    readonly by: string;
    readonly key: string;
    readonly times: number;
    readonly again: readonly { readonly batch_id: string | null }[];
  }[];
}

/** Compares what the database says, what the tools did and what the provider billed. */
export async function judge(
  db: Database,
  pool: pg.Pool,
  sources: { readonly controlUrl: string; readonly effectsFile: string; readonly postgresLog: string },
): Promise<Verdict> {
  const one = async <T extends Record<string, unknown>>(text: string): Promise<T> => {
    const { rows } = await pool.query<T>(text);
    return rows[0] as T;
  };
  // Tables that grew to this within minutes have statistics of when they were empty.
  await pool.query('analyze');
  const runs = await one<{ total: number; well: number }>(
    `select count(*)::int as total, count(*) filter (where state = 'completed' and stop_reason = 'end_turn')::int as well from run`,
  );
  const steps = await one<{ applied: number; twice: number }>(
    `select count(*)::int as applied, (count(*) - count(distinct (run_id, number)))::int as twice from step where applied_at is not null`,
  );
  const orphans = await one<{ booked: number; adopted: number }>(
    `select (select count(*)::int from provider_batch where state = 'orphan_paid') as booked,
            (select count(*)::int from doubted_submission where outcome = 'adopted') as adopted`,
  );
  const { rows: booked } = await pool.query<{ provider_id: string }>(
    `select provider_id from provider_batch where state = 'orphan_paid'`,
  );
  const orphanIds = new Set(booked.map((row) => row.provider_id));
  const ledger = (await (await fetch(`${sources.controlUrl}/ledger`)).json()) as Ledger;
  const paidTwice = ledger.repeats.filter(
    (repeat) =>
      repeat.by === 'logical_key' &&
      !repeat.again.every(({ batch_id }) => batch_id !== null && orphanIds.has(batch_id)),
  );
  const violations = await auditInvariants(db);
  const deadlocks = readDeadlocks(sources.postgresLog);
  return {
    runs: runs.total,
    steps: steps.applied,
    lost: runs.total - runs.well,
    duplicated: steps.twice + repeatedEffects(sources.effectsFile),
    paid_twice: paidTwice.length,
    orphans_booked: orphans.booked,
    orphans_adopted: orphans.adopted,
    violations: violations.map((violation) => violation.name),
    ...deadlocks,
  };
}

/** How many effects of the `once` tool happened more than once. */
function repeatedEffects(file: string): number {
  if (!existsSync(file)) return 0;
  const keys = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  return keys.length - new Set(keys).size;
}

/** The server's log tells whose statements met in a deadlock. */
function readDeadlocks(logFile: string): { readonly deadlocks: number; readonly deadlocks_of_queue: number } {
  const log = existsSync(logFile) ? readFileSync(logFile, 'utf8') : '';
  let ours = 0;
  let queues = 0;
  for (const [, report = ''] of log.matchAll(/deadlock detected([\s\S]{0,2000})/g)) {
    if (/bullmq/i.test(report)) queues += 1;
    else ours += 1;
  }
  return { deadlocks: ours, deadlocks_of_queue: queues };
}
