import { createPool } from '@nightshift/services';
import { Kysely, PostgresDialect, sql } from 'kysely';
import type { Database, DB, Tx } from '../src/index.ts';

/** A node of a plan as reported by PostgreSQL. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Loops'?: number;
  readonly 'Actual Rows'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Filter?: string;
  readonly 'Join Filter'?: string;
  readonly Plans?: readonly PlanNode[];
}

class Undone extends Error {}

/** A statement and the plan of its execution. */
export interface Explained {
  readonly statement: string;
  readonly plan: PlanNode;
}

/**
 * Runs `work`, rolls it back, and returns its statements with their actual plans.
 * The server logs the plans itself: `explain` with parameters would plan differently.
 */
export async function explain(
  url: string,
  work: (trx: Tx) => Promise<unknown>,
): Promise<readonly Explained[]> {
  const pool = createPool({ url, max: 1, applicationName: 'test' });
  const plans: Explained[] = [];
  pool.on('connect', (client) => {
    client.on('notice', ({ message = '' }) => {
      const json = /^duration: .* plan:\n(.*)$/s.exec(message)?.[1];
      if (json === undefined) return;
      const { 'Query Text': text, Plan: plan } = JSON.parse(json) as {
        readonly 'Query Text': string;
        readonly Plan: PlanNode;
      };
      plans.push({ statement: text.trim().replaceAll(/\s+/g, ' ').slice(0, 100), plan });
    });
  });
  const own: Database = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
  try {
    await own.transaction().execute(async (trx) => {
      await sql`load 'auto_explain'`.execute(trx);
      for (const [name, value] of EXPLAIN_EVERYTHING)
        await sql`select set_config(${name}, ${value}, true)`.execute(trx);
      plans.length = 0;
      await work(trx);
      throw new Undone();
    });
  } catch (error) {
    if (!(error instanceof Undone)) throw error;
  } finally {
    await own.destroy();
  }
  return plans;
}

const EXPLAIN_EVERYTHING = [
  ['auto_explain.log_format', 'json'],
  ['auto_explain.log_analyze', 'on'],
  ['auto_explain.log_timing', 'off'],
  ['auto_explain.log_level', 'notice'],
  ['auto_explain.log_min_duration', '0'],
] as const;

/** Yields a node and all nodes below it. */
export function* nodesOf(plan: PlanNode): Generator<PlanNode> {
  yield plan;
  for (const child of plan.Plans ?? []) yield* nodesOf(child);
}

/** Counts the rows of a table that each scanning node read, including filtered rows. */
export function rowsReadOf(plans: readonly Explained[], table: string): readonly number[] {
  return plans
    .flatMap(({ plan }) => [...nodesOf(plan)])
    .filter((node) => node['Relation Name'] === table)
    .map(
      (node) =>
        ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0)) * (node['Actual Loops'] ?? 1),
    );
}

/** Disables autovacuum, so that the server does not refresh statistics during a test. */
export async function leaveUncounted(db: Database, tables: readonly (keyof DB)[]): Promise<void> {
  for (const table of tables)
    await sql`alter table ${sql.table(table)} set (autovacuum_enabled = false)`.execute(db);
}

/**
 * Simulates statistics taken during a large transaction: its rows have pages but were invisible; a few other rows were
 * visible.
 */
export async function countNearlyNone(db: Database): Promise<void> {
  const tables = sql`array['run', 'step', 'message', 'tool_call']::regclass[]`;
  await sql`delete from pg_statistic where starelid = any(${tables})`.execute(db);
  await sql`
    update pg_class set reltuples = 5
     where oid = any(${tables}) or oid in (select indexrelid from pg_index where indrelid = any(${tables}))
  `.execute(db);
}
