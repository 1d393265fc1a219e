import { readWithin } from '@nightshift/db';
import type { Context } from '../context.ts';
import type { Check, CheckName } from '../schemas/checks.ts';
import { checkConnections, checkDatabase, checkDisk, checkMigrations, checkStatements } from './database.ts';
import type { CheckFunction, Scene } from './judged.ts';
import { checkPrices } from './prices.ts';
import { checkClocks, checkProviderKeys } from './provider.ts';
import { checkQueue } from './queue.ts';
import { checkSchedules } from './schedules.ts';
import { checkSecrets } from './secrets.ts';
import { checkBacklog, checkBooks } from './work.ts';
import { checkTools, checkWorkers } from './workers.ts';

/** Timeout of a statement of a check. Unit: ms. */
const STATEMENT_MS = 2_000;
/** Timeout of a whole check, with its wait for a connection. Unit: ms. */
const CHECK_MS = 8_000;

/** All checks, in the order of the answer: a cause comes before its effects. */
const CHECKS: { readonly [Name in CheckName]: CheckFunction<Name> } = {
  database: checkDatabase,
  migrations: checkMigrations,
  connections: checkConnections,
  statements: checkStatements,
  disk: checkDisk,
  queue: checkQueue,
  workers: checkWorkers,
  tools: checkTools,
  secrets: checkSecrets,
  provider_keys: checkProviderKeys,
  clocks: checkClocks,
  backlog: checkBacklog,
  books: checkBooks,
  prices: checkPrices,
  schedules: checkSchedules,
};

/** Makes all checks side by side. Never rejects: a check that fails is a finding. */
export function runChecks(context: Context, until: Date): Promise<Check[]> {
  const scene: Scene = { context, until, read: (work) => readWithin(context.db, STATEMENT_MS, work) };
  return Promise.all(
    Object.entries(CHECKS).map(async ([name, check]) => {
      const judged = await withinTime<object>(check(scene)).catch(failed);
      return { name, ...judged } as Check;
    }),
  );
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${CHECK_MS / 1000} s`)), CHECK_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** SQLSTATE of a cancelled statement. */
const TIMED_OUT = '57014';
const NO_TABLE = '42P01';

function failed(error: unknown) {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  const isLate = code === TIMED_OUT;
  const reason = isLate ? `a statement took longer than ${STATEMENT_MS / 1000} s` : message || code;
  return {
    status: 'failing',
    finding: `This check failed: ${reason}.`,
    advice: isLate
      ? 'The database is busy, or a program holds a lock: see the check statements.'
      : code === NO_TABLE
        ? 'Run the migrate step: node scripts/migrate.ts.'
        : 'See the log of the API, and whether the database answers.',
    details: null,
  };
}
