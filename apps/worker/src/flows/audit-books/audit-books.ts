import {
  auditInvariants,
  claimAudit,
  commitAudit,
  DEFAULT_PROJECT_ID,
  haltCredential,
  inTransaction,
  MONEY_INVARIANTS,
  newId,
  readPausedCredentials,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'audit-books';
const HOW_TO_RESUME =
  'nothing is sent until `npm run audit -- --resume` finds no violation that touches money';

/**
 * Checks the invariants of the whole database from time to time, one worker at a time. One that touches money stops
 * every new submission until an operator has looked; what is at the provider is still taken in, and reads go on. Until then
 * every audit says so, whatever it finds.
 */
export async function auditBooks(deps: FlowDeps): Promise<FlowReport> {
  const { db, settings } = deps;
  const id = newId();
  if (!(await claimAudit(db, DEFAULT_PROJECT_ID, id, settings.audit_interval_ms)))
    return { flow: FLOW, worked: false };
  const books = deps.audit_db ?? db;
  const ofMoney = await auditInvariants(books, { among: (invariant) => MONEY_INVARIANTS.has(invariant) });
  const [money] = ofMoney;
  if (money !== undefined) {
    // At once, with the reason: the other invariants take longer to look at, and may fail.
    await haltCredential(db, settings.credential, `${money.id}, ${money.name}`);
    await inTransaction(db, (trx) => commitAudit(trx, id, ofMoney));
  }
  const others = await auditInvariants(books, { among: (invariant) => !MONEY_INVARIANTS.has(invariant) });
  const violations = [...ofMoney, ...others];
  await inTransaction(db, (trx) => commitAudit(trx, id, violations));
  const halt = (await readPausedCredentials(db)).find(
    ({ name, paused_until }) => name === settings.credential && paused_until === null,
  );
  return {
    flow: FLOW,
    worked: true,
    violations: violations.length,
    broken: [...new Set(violations.map((violation) => violation.id))].join(' '),
    halted: halt !== undefined,
    ...(halt === undefined ? {} : { reason: `${halt.reason}; ${HOW_TO_RESUME}` }),
    alarm: violations.length > 0 || halt !== undefined,
  };
}
