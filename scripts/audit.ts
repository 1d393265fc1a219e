import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { NightshiftError } from '../libs/agent-core/src/index.ts';
import {
  assertGranted,
  assertMigrated,
  auditInvariants,
  connect,
  explained,
  inTransaction,
  MONEY_INVARIANTS,
  readPausedCredentials,
  resumeCredential,
  type Database,
} from '../libs/db/src/index.ts';
import { AUDIT_STATEMENT_MS, createPool, providePostgres } from '../libs/services/src/index.ts';
import { endWith, given, readCommandLine } from './command-line.ts';

// Audits a database and prints every row that violates an invariant. The exit code is 0 when none does.
// DATABASE_URL names the database. Without it, the embedded one under .data is used, and started when no
// service runs.
// `--resume` ends a halt of submissions, or a pause that the provider did not ask for, unless a violation
// touches money.
const { flags } = readCommandLine({
  name: 'audit',
  what: 'Audits a database and prints every row that violates an invariant.',
  takes: 'seconds; minutes where there are millions of steps',
  flags: {
    resume: {
      what: 'resume submissions that an audit has halted or a key or account has paused, unless a violation touches money',
    },
  },
});
const databaseUrl = given('DATABASE_URL');
const dataDir = given('DATA_DIR') ?? '.data';
if (databaseUrl === undefined && !existsSync(join(dataDir, 'pg/cluster')))
  endWith(
    new Error(
      `There is no database in ${dataDir}, because no service was started there. Set DATA_DIR or DATABASE_URL.`,
    ),
  );
const postgres = await providePostgres({
  ...(databaseUrl === undefined ? {} : { databaseUrl }),
  dataDir: join(dataDir, 'pg'),
  durable: true,
  mayJoin: true,
}).catch(endWith);
// Millions of steps take longer than the service's statement timeout.
const pool = createPool({
  url: postgres.url,
  max: 1,
  applicationName: 'nightshift-audit',
  statementTimeoutMs: AUDIT_STATEMENT_MS,
});
const db = connect(pool);
try {
  await assertGranted(db, flags.resume ? undefined : ['select']);
  await assertMigrated(db);
  const violations = await auditInvariants(db);
  for (const violation of violations) {
    console.log(JSON.stringify({ ...violation, money: MONEY_INVARIANTS.has(violation.id) }));
  }
  console.error(
    violations.length === 0 ? 'No invariant is violated.' : `${violations.length} rows violate an invariant.`,
  );
  process.exitCode = violations.length === 0 ? 0 : 1;
  if (flags.resume) {
    const isMoneyWrong = violations.some(({ id }) => MONEY_INVARIANTS.has(id));
    console.error(isMoneyWrong ? 'Submissions stay halted: a violation touches money.' : await resume(db));
  }
} catch (error) {
  const told = explained(error, postgres.url);
  if (!(told instanceof NightshiftError)) throw error;
  console.error(told.message);
  process.exitCode = 1;
} finally {
  await pool.end();
  await postgres.stop();
}

/** Resumes submissions and describes the reason of their pause. */
async function resume(on: Database): Promise<string> {
  const ended = await inTransaction(on, (trx) => resumeCredential(trx, 'default'));
  if (ended !== null) return `Submissions resume within a few seconds. The reason was: ${ended}.`;
  const [kept] = await readPausedCredentials(on);
  if (kept === undefined) return 'Submissions were not halted.';
  return `Submissions stay paused until ${kept.paused_until?.toISOString()}: ${kept.reason}.`;
}
