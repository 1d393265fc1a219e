import { connect, type Database } from '@nightshift/db';
import pg from 'pg';

/** One connection in one transaction that never commits, so that everything since a point can be undone at once. */
export interface RewindingDatabase {
  readonly db: Database;
  rows<T>(text: string): Promise<T[]>;
  /** Undoes everything since this was opened. */
  rewind(): Promise<void>;
  close(): Promise<void>;
}

/** Transactions of flows become savepoints. Their statements and guards are real; only one runs at a time. */
const INSTEAD: Readonly<Record<string, string>> = {
  begin: 'savepoint flow',
  commit: 'release savepoint flow',
  rollback: 'rollback to savepoint flow',
};

export async function openRewindingDatabase(url: string): Promise<RewindingDatabase> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('begin');
  await client.query('savepoint start');
  let last: Promise<unknown> = Promise.resolve();
  const pool = {
    /** Gives the connection to one user at a time, like a pool of one. */
    async connect() {
      const turn = Promise.withResolvers<void>();
      const before = last;
      last = turn.promise;
      await before;
      return {
        query: (text: string, values: unknown[]) => client.query(INSTEAD[text] ?? text, values),
        release: () => {
          turn.resolve();
        },
      };
    },
    end: () => Promise.resolve(),
  };
  return {
    db: connect(pool as unknown as pg.Pool),
    async rows<T>(text: string) {
      const { rows } = await client.query<T & pg.QueryResultRow>(text);
      return rows;
    },
    async rewind() {
      await client.query('rollback to savepoint start');
    },
    async close() {
      await client.query('rollback');
      await client.end();
    },
  };
}
