import {
  auditInvariants,
  claimAudit,
  commitAudit,
  DEFAULT_PROJECT_ID,
  haltCredential,
  inTransaction,
  MONEY_INVARIANTS,
  newId,
  readAuditScope,
  readPausedCredentials,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'audit-books';
const HOW_TO_RESUME =
  'nothing is sent until `npm run audit -- --resume` finds no violation that touches money';

/**
 * Audits the database at intervals, in one worker at a time: the batches that changed since the last audit, and a slice of all
 * others, so that a week covers everything. After a violation it audits all rows until none is left.
 * A violation that touches money halts all new submissions until an operator resumes them. Ingest and reads go on. Until
 * then each audit reports the halt, even without a violation.
 */
export async function auditBooks(deps: FlowDeps): Promise<FlowReport> {
  const { db, settings } = deps;
  const id = newId();
  if (!(await claimAudit(db, DEFAULT_PROJECT_ID, id, settings.audit_interval_ms)))
    return { flow: FLOW, worked: false };
  const books = deps.audit_db ?? db;
  const scope = await readAuditScope(books);
  const ofMoney = await auditInvariants(books, {
    scope,
    among: (invariant) => MONEY_INVARIANTS.has(invariant),
  });
  const [money] = ofMoney;
  if (money !== undefined) {
    // Committed at once with its reason: the other invariants take longer and may fail.
    await haltCredential(db, settings.credential, `${money.id}, ${money.name}`);
    await inTransaction(db, (trx) => commitAudit(trx, id, ofMoney));
  }
  const others = await auditInvariants(books, {
    scope,
    among: (invariant) => !MONEY_INVARIANTS.has(invariant),
  });
  const violations = [...ofMoney, ...others];
  await inTransaction(db, (trx) => commitAudit(trx, id, violations, scope));
  const halt = (await readPausedCredentials(db)).find(
    ({ name, paused_until }) => name === settings.credential && paused_until === null,
  );
  return {
    flow: FLOW,
    worked: true,
    covers: scope === null ? 'all' : 'changes and a slice',
    violations: violations.length,
    broken: [...new Set(violations.map((violation) => violation.id))].join(' '),
    halted: halt !== undefined,
    ...(halt === undefined ? {} : { reason: `${halt.reason}; ${HOW_TO_RESUME}` }),
    alarm: violations.length > 0 || halt !== undefined,
  };
}
