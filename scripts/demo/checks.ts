import type pg from 'pg';
import type { LedgerSnapshot } from '../../apps/simulator/src/index.ts';
import { auditInvariants } from '../../libs/db/src/index.ts';
import type { Stack } from '../stack/stack.ts';

/** One thing that the demo claims, and whether it holds. */
export interface Check {
  readonly claim: string;
  readonly holds: boolean;
  /** What was counted. */
  readonly detail: string;
}

/** Prints the checks, and returns whether all of them hold. */
export function showChecks(checks: readonly Check[]): boolean {
  for (const { claim, holds, detail } of checks) console.log(`  ${holds ? '✔' : '✘'} ${claim}: ${detail}`);
  return checks.every((check) => check.holds);
}

/** Runs of earlier starts that go on by themselves: the provider would bill their requests among those of the demo. */
export async function countLeftRuns(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from run r join batch b on b.id = r.batch_id
      where r.ended_at is null and r.state <> 'requires_action' and b.state = 'running'`,
  );
  return rows[0]?.count ?? 0;
}

/** Steps of the batches whose answers were applied, and how many of these more than once. */
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

/** What the database and the provider's own ledger say about the demo's batches. */
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

/** The provider's ledger is the outside truth: what it billed is what was applied, once. */
function paidOnce(ledger: LedgerSnapshot, applied: number): Check {
  const { requests, usd } = ledger.totals;
  const twice = ledger.repeated.content_hashes;
  return {
    claim: 'no step was paid twice',
    holds: twice === 0 && requests === applied,
    detail: `the provider billed ${requests} requests for ${applied} applied steps, ${twice} twice, $${usd.toFixed(4)}`,
  };
}
