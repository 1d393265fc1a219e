/** Counts statements and transactions where they leave the process, for every copy of `pg` that is loaded. */
import type pg from 'pg';

export interface StatementCounts {
  statements: number;
  /** Transactions that were begun, and statements outside of any. */
  transactions: number;
}

type Query = (this: object, ...parameters: readonly unknown[]) => unknown;

/**
 * Counts statements that clients of this module send; `begin`, `commit` and the like count as transactions.
 */
export function countStatements(module: Pick<typeof pg, 'Client'>, counts: StatementCounts): void {
  const prototype = module.Client.prototype as unknown as { query: Query };
  const send = prototype.query;
  const open = new WeakSet();
  prototype.query = function counted(...parameters) {
    const [first] = parameters;
    const text = typeof first === 'string' ? first : ((first as { text?: string } | undefined)?.text ?? '');
    const word = /^\s*(\w+)/.exec(text)?.[1]?.toLowerCase() ?? '';
    if (word === 'begin' || word === 'start') {
      open.add(this);
      counts.transactions += 1;
    } else if (word === 'commit' || word === 'rollback') open.delete(this);
    else if (word !== 'savepoint' && word !== 'release') {
      counts.statements += 1;
      if (!open.has(this)) counts.transactions += 1;
    }
    return send.apply(this, [...parameters]);
  };
}
