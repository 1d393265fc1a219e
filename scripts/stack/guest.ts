import type pg from 'pg';

/**
 * Refuses a database with other agents than the demo's, or with an API or workers at work.
 * These would carry out the demo's runs on their own key. Writes nothing, and accepts a database without
 * tables.
 */
export async function refuseOthers(pool: pg.Pool): Promise<void> {
  const advice = `Give npm run demo a database of its own, or leave DATABASE_URL out: it brings its own server.`;
  const { rows: at } = await pool.query<{ work: number; tables: boolean }>(
    `select to_regclass('agent') is not null as tables,
            (select count(*)::int from pg_stat_activity
              where datname = current_database() and application_name ~ '^nightshift-(api|worker)') as work`,
  );
  if ((at[0]?.work ?? 0) > 0)
    throw new Error(`An API or workers are at work in the database of DATABASE_URL. ${advice}`);
  if (at[0]?.tables !== true) return;
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from agent where cardinality(tags) <> 1 or tags[1] !~ '^demo-[0-9a-z]{8}$'`,
  );
  const others = rows[0]?.count ?? 0;
  if (others === 0) return;
  throw new Error(
    `The database of DATABASE_URL holds ${others} agent${others === 1 ? '' : 's'} that npm run demo has not made. ${advice}`,
  );
}
