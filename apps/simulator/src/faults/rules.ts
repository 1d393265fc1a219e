import type { Operation } from '../api/exchange.ts';
import { drawFrom } from '../draws.ts';
import { batchFault } from './batch-actions.ts';
import type { Fault } from './fault.ts';
import { respondFault } from './respond-actions.ts';
import { resultFault } from './result-actions.ts';
import { ruleSchema } from './rule-schema.ts';
import type { OperationRule, Outcome, RequestRule } from './rule-schema.ts';

/** The data of an API request that rules may match. */
export interface OperationFacts {
  readonly op: Operation;
  readonly opSeq: number;
  readonly nowMs: number;
  readonly batchId: string | null;
  readonly batchSeq: number | null;
  readonly retryCount: number | null;
}

/** The data of a batch's request that rules may match. */
export interface RequestFacts {
  readonly batchId: string;
  readonly batchSeq: number;
  readonly customId: string;
  readonly contentHash: string;
  /** Reads the params as sent; called only by rules that search them. */
  readonly text: () => string;
}

/** A rule with its counts of candidates and firings. */
export interface RuleStatus {
  readonly id: string;
  readonly rule: RequestRule | OperationRule;
  readonly candidates: number;
  readonly fired: number;
}

/** The active rules. The first match acts. */
export interface Rules {
  /**
   * Appends a rule and returns its id.
   * Throws: ZodError that names the member.
   */
  add(input: unknown): string;
  /** Removes a rule and releases the requests that it holds; false for an unknown id. */
  remove(id: string): boolean;
  clear(): void;
  list(): RuleStatus[];
  faultsFor(
    facts: OperationFacts,
  ): { readonly ruleId: string; readonly faults: readonly Fault[] } | undefined;
  outcomeFor(facts: RequestFacts): { readonly ruleId: string; readonly outcome: Outcome } | undefined;
  /** True when any rule is for single requests. */
  judgeRequests(): boolean;
}

interface Entry {
  readonly id: string;
  readonly rule: RequestRule | OperationRule;
  readonly customId: RegExp | undefined;
  readonly faults: readonly Fault[];
  readonly release: () => void;
  candidates: number;
  fired: number;
}

type Counters = Pick<RequestRule['match'], 'nth' | 'every' | 'probability' | 'times'>;

/** Counts a candidate and decides whether the rule fires. */
function fires(entry: Entry, match: Counters, draw: () => number): boolean {
  if (match.times !== undefined && entry.fired >= match.times) return false;
  entry.candidates++;
  if (typeof match.nth === 'number' && entry.candidates !== match.nth) return false;
  if (Array.isArray(match.nth) && !match.nth.includes(entry.candidates)) return false;
  if (match.every !== undefined && entry.candidates % match.every !== 0) return false;
  if (match.probability !== undefined && draw() >= match.probability) return false;
  entry.fired++;
  return true;
}

function compile(rule: OperationRule, ruleId: string, released: Promise<void>): Fault[] {
  return (rule.actions ?? [rule.action]).map((action) => {
    const fault =
      action &&
      (respondFault(action, ruleId, released) ?? batchFault(action, ruleId) ?? resultFault(action, ruleId));
    if (!fault) throw new Error(`rule ${ruleId}: the action "${String(action?.type)}" has no implementation`);
    return fault;
  });
}

/** Creates an empty rule set. Probabilities derive from `seed()`. */
export function createRules(seed: () => string): Rules {
  const entries: Entry[] = [];
  let nextNumber = 1;

  function remove(id: string): boolean {
    const at = entries.findIndex((entry) => entry.id === id);
    if (at < 0) return false;
    entries.splice(at, 1)[0]?.release();
    return true;
  }

  return {
    add(input) {
      const rule = ruleSchema.parse(input);
      const id = rule.id ?? `rule-${nextNumber++}`;
      const { promise, resolve } = Promise.withResolvers<void>();
      const faults = rule.op === 'request' ? [] : compile(rule, id, promise);
      remove(id);
      const pattern = rule.op === 'request' ? rule.match.custom_id : undefined;
      entries.push({
        id,
        rule,
        customId: pattern === undefined ? undefined : new RegExp(pattern),
        faults,
        release: resolve,
        candidates: 0,
        fired: 0,
      });
      return id;
    },
    remove,
    clear() {
      for (const entry of entries.splice(0)) entry.release();
      // Draws use the rule's id, so the same rules must get the same ids again.
      nextNumber = 1;
    },
    list: () => entries.map(({ id, rule, candidates, fired }) => ({ id, rule, candidates, fired })),
    faultsFor(facts) {
      for (const entry of entries) {
        const { rule } = entry;
        if (rule.op === 'request' || (rule.op !== 'any' && rule.op !== facts.op)) continue;
        const { match } = rule;
        if (match.batch_id !== undefined && match.batch_id !== facts.batchId) continue;
        if (match.batch_seq !== undefined && match.batch_seq !== facts.batchSeq) continue;
        if (match.retry_count !== undefined && match.retry_count !== facts.retryCount) continue;
        if (match.after_ms !== undefined && facts.nowMs < match.after_ms) continue;
        if (match.until_ms !== undefined && facts.nowMs >= match.until_ms) continue;
        if (fires(entry, match, () => drawFrom(seed(), 'rule', entry.id, facts.op, facts.opSeq))) {
          return { ruleId: entry.id, faults: entry.faults };
        }
      }
      return undefined;
    },
    outcomeFor(facts) {
      for (const entry of entries) {
        const { rule } = entry;
        if (rule.op !== 'request') continue;
        const { match } = rule;
        if (match.batch_id !== undefined && match.batch_id !== facts.batchId) continue;
        if (match.batch_seq !== undefined && match.batch_seq !== facts.batchSeq) continue;
        if (match.content_hash !== undefined && match.content_hash !== facts.contentHash) continue;
        if (entry.customId !== undefined && !entry.customId.test(facts.customId)) continue;
        if (match.contains !== undefined && !facts.text().includes(match.contains)) continue;
        if (fires(entry, match, () => drawFrom(seed(), 'rule', entry.id, facts.customId))) {
          return { ruleId: entry.id, outcome: rule.outcome };
        }
      }
      return undefined;
    },
    judgeRequests: () => entries.some(({ rule }) => rule.op === 'request'),
  };
}
