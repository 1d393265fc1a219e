import type pg from 'pg';

/** What fills a database with work of its own, and tags its agents by its name. */
export type Guest = 'demo' | 'load';

/**
 * Throws where a guest has no business: in a database with agents that are not its own, or in which an API or workers are at
 * work, which would take its work for theirs, on their key, as far as they are connected under their own names. Changes nothing; a database without tables is free to be used.
 */
export async function refuseOthers(pool: pg.Pool, guest: Guest): Promise<void> {
  const advice = `Give npm run ${guest} a database of its own, or leave DATABASE_URL out: it brings its own server.`;
  const { rows: at } = await pool.query<{ work: number; tables: boolean }>(
    `select to_regclass('agent') is not null as tables,
            (select count(*)::int from pg_stat_activity
              where datname = current_database() and application_name ~ '^nightshift-(api|worker)') as work`,
  );
  if ((at[0]?.work ?? 0) > 0)
    throw new Error(`An API or workers are at work in the database of DATABASE_URL. ${advice}`);
  if (at[0]?.tables !== true) return;
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from agent where tags <> array[$1]',
    [guest],
  );
  const others = rows[0]?.count ?? 0;
  if (others === 0) return;
  throw new Error(
    `The database of DATABASE_URL holds ${others} agent${others === 1 ? '' : 's'} that npm run ${guest} has not made. ${advice}`,
  );
}
