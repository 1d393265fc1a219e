import type pg from 'pg';
import type { LedgerSnapshot } from '../../apps/simulator/src/index.ts';
import { auditInvariants } from '../../libs/db/src/index.ts';
import type { Stack } from '../stack/stack.ts';

/** A claim of the demo and its verdict. */
export interface Check {
  readonly claim: string;
  readonly holds: boolean;
  /** The counted figures. */
  readonly detail: string;
}

/** Prints the checks. Returns whether all hold. */
export function showChecks(checks: readonly Check[]): boolean {
  for (const { claim, holds, detail } of checks) console.log(`  ${holds ? '✔' : '✘'} ${claim}: ${detail}`);
  return checks.every((check) => check.holds);
}

/** Counts open runs of earlier starts, whose requests the provider would bill among the demo's. */
export async function countLeftRuns(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from run r join batch b on b.id = r.batch_id
      where r.ended_at is null and r.state <> 'requires_action' and b.state = 'running'`,
  );
  return rows[0]?.count ?? 0;
}

/** Counts the applied steps of the batches, and the steps that were applied twice. */
export async function countApplied(
  pool: pg.Pool,
  batchIds: readonly string[],
): Promise<{ readonly steps: number; readonly twice: number }> {
  const { rows } = await pool.query<{ steps: number; twice: number }>(
    `select count(*)::int as steps, (count(*) - count(distinct (run_id, number)))::int as twice
       from step s where applied_at is not null and run_id in (select id from run where batch_id = any($1::uuid[]))`,
    [batchIds],
  );
  return rows[0] ?? { steps: 0, twice: 0 };
}

/** Checks the demo's batches in the database and in the provider's ledger. */
export async function checkBooks(stack: Stack, batchIds: readonly string[]): Promise<readonly Check[]> {
  const one = async (text: string): Promise<Record<string, number>> => {
    const { rows } = await stack.pool.query<Record<string, number>>(text, [batchIds]);
    return rows[0] ?? {};
  };
  const runs = await one(
    `select count(*)::int as total, count(*) filter (where state = 'completed')::int as completed
       from run where batch_id = any($1::uuid[])`,
  );
  const applied = await countApplied(stack.pool, batchIds);
  const violations = await auditInvariants(stack.db);
  const checks: Check[] = [
    {
      claim: 'every run ended well',
      holds: runs['total'] === runs['completed'] && (runs['total'] ?? 0) > 0,
      detail: `${runs['completed']} of ${runs['total']} runs completed`,
    },
    {
      claim: 'no step was applied twice',
      holds: applied.twice === 0,
      detail: `${applied.steps} steps applied, ${applied.twice} twice`,
    },
    {
      claim: 'the books are in order',
      holds: violations.length === 0,
      detail:
        violations.length === 0
          ? 'no invariant violated'
          : violations.map((violation) => violation.name).join(', '),
    },
  ];
  if (stack.simulatorControlUrl !== null) {
    const answer = await fetch(`${stack.simulatorControlUrl}/ledger`);
    const ledger = (await answer.json()) as LedgerSnapshot;
    checks.push(paidOnce(ledger, applied.steps));
  }
  return checks;
}

/** Compares the provider's bills with the applied steps. */
function paidOnce(ledger: LedgerSnapshot, applied: number): Check {
  const { requests, usd } = ledger.totals;
  const twice = ledger.repeated.content_hashes;
  return {
    claim: 'no step was paid twice',
    holds: twice === 0 && requests === applied,
    detail: `the provider billed ${requests} requests for ${applied} applied steps, ${twice} twice, $${usd.toFixed(4)}`,
  };
}
