import type pg from 'pg';
import {
  connect,
  DEFAULT_PROJECT_ID,
  inTransaction,
  registerMemoryTools,
  registerModuleTools,
  type Database,
} from '../libs/db/src/index.ts';
import { openTestDatabase } from '../libs/db/src/testing/index.ts';
import { createPool } from '../libs/services/src/index.ts';
import { createRandom } from './random.ts';
import { createSqlConnection, type SqlConnection } from './sim-pool.ts';
import { MODULE_TOOLS } from './tools.ts';
import { createActor, createWorld, currentActor } from './world.ts';

/** A database with one connection, for one simulation at a time. */
export interface ProofDatabase {
  readonly connection: SqlConnection;
  /** Kysely on the connection, for code outside of the simulated processes. */
  readonly db: Database;
  /**
   * Restores the state before the first seed. `exactly`: includes the order of rows on disk, which costs ten
   * times as much and makes two runs of a seed equal to the last step.
   */
  reset(exactly: boolean): Promise<void>;
  close(): Promise<void>;
}

/** Settings of a server that serves simulations alone. */
export const SERVER_SETTINGS: Readonly<Record<string, string | number>> = {
  autovacuum: 'off',
  jit: 'off',
  wal_level: 'minimal',
  max_wal_senders: 0,
};

/** Deletes leave dead rows behind, so some resets truncate instead. */
const RESETS_PER_TRUNCATE = 8;

/** Tables that keep their rows between seeds. */
const KEPT = ['project', 'tool', 'credential', 'kysely_migration', 'kysely_migration_lock'];

/** Clones a migrated database on the server and prepares it for simulations. */
export async function openProofDatabase(serverUrl: string): Promise<ProofDatabase> {
  const database = await openTestDatabase(serverUrl);
  const pool = createPool({ url: database.url, max: 1, applicationName: 'proof', statementTimeoutMs: 0 });
  const client = await pool.connect();
  // Generic plans: a simulation runs the same statements thousands of times over small tables.
  await client.query('set plan_cache_mode = force_generic_plan');
  // The database's own ids must follow from the seed too.
  await client.query('create sequence proof_uuid');
  await client.query(
    `create function gen_random_uuid() returns uuid language sql volatile as
     $$ select lpad(to_hex(nextval('proof_uuid')), 32, '0')::uuid $$`,
  );
  await client.query('set search_path = public, pg_catalog');
  const connection = createSqlConnection(client);
  const { rows: tables } = await client.query<{ name: string }>(
    'select tablename as name from pg_tables where schemaname = $1 and not tablename = any($2)',
    ['public', KEPT],
  );
  const truncate = `truncate ${tables.map((table) => table.name).join(', ')} cascade`;
  const deletes = tables.map((table) => `delete from ${table.name}`).join(';');
  // All tables are emptied, so foreign keys need no check.
  const empty = `set session_replication_role = replica; ${deletes}; set session_replication_role = origin`;
  let resets = 0;
  const db = connect(passThrough(connection) as unknown as pg.Pool);
  await asSetUp(() =>
    inTransaction(db, async (trx) => {
      await registerMemoryTools(trx, DEFAULT_PROJECT_ID);
      await registerModuleTools(trx, DEFAULT_PROJECT_ID, MODULE_TOOLS);
    }),
  );
  return {
    connection,
    db,
    async reset(exactly) {
      resets += 1;
      const isExact = exactly || resets % RESETS_PER_TRUNCATE === 0;
      await client.query(`${isExact ? truncate : empty};
        alter sequence proof_uuid restart;
        update credential set paused_until = null, pause_reason = null, lease_owner = null,
          lease_until = '-infinity', lease_epoch = 0, failures = 0, refusals = 0,
          clock_offset_ms = null, clock_uncertainty_ms = null, clock_measured_at = null, look_from = null;
        reset nightshift.now`);
    },
    async close() {
      client.release();
      await pool.end();
      await database.close();
    },
  };
}

/** Runs `work` with ids of a fixed seed. */
function asSetUp<T>(work: () => Promise<T>): Promise<T> {
  const world = createWorld(createRandom('set-up'), Date.UTC(2026, 0, 1));
  return currentActor.run(createActor(world, 'set-up', createRandom('set-up')), work);
}

function passThrough(connection: SqlConnection): object {
  return {
    connect: () =>
      Promise.resolve({
        query: (text: string, values?: readonly unknown[]) => connection.query(text, values),
        release: () => undefined,
      }),
    end: () => Promise.resolve(),
  };
}
