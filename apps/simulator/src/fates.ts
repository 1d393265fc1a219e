import { drawFrom } from './draws.ts';
import type { Outcome } from './faults/rule-schema.ts';
import { logicalKeyOf } from './ledger.ts';
import type { SimulatorState } from './state.ts';
import type { Directive } from './scripts/directive.ts';

export type EndCause = 'done' | 'canceled' | 'expired';

/** The decision about a request: an end without an answer, or an answer by a model. */
export type Verdict =
  | { readonly kind: 'answer'; readonly script?: Directive }
  | { readonly kind: 'errored'; readonly type: string; readonly message: string }
  | { readonly kind: 'canceled' }
  | { readonly kind: 'expired' };

/** The circumstances under which the requests of one batch end. */
export interface Ending {
  readonly cause: EndCause;
  /** Fraction of the batch that was done at its interruption: 0 … 1. */
  readonly progress: number;
}

const ANSWER: Verdict = { kind: 'answer' };
const CANCELED: Verdict = { kind: 'canceled' };
const EXPIRED: Verdict = { kind: 'expired' };

function byOutcome(
  state: SimulatorState,
  outcome: Outcome,
  ruleId: string,
  customId: string,
  contentHash: string,
): Verdict {
  switch (outcome.type) {
    case 'succeed':
      return ANSWER;
    case 'errored':
      return { kind: 'errored', type: outcome.error_type, message: outcome.message };
    case 'expire':
      return EXPIRED;
    case 'cancel':
      return CANCELED;
    case 'script':
      return { kind: 'answer', script: { script: outcome.script, args: outcome.args } };
    case 'errorTimesThenSucceed': {
      const pattern = state.settings.logical_key;
      const logical = logicalKeyOf(customId, pattern === null ? null : new RegExp(pattern));
      const key = `${ruleId} ${outcome.by === 'content' ? contentHash : logical}`;
      const before = state.errorCounts.get(key) ?? 0;
      if (before >= outcome.times) return ANSWER;
      state.errorCounts.set(key, before + 1);
      return { kind: 'errored', type: outcome.error_type, message: outcome.message };
    }
  }
}

/**
 * Decides the fate of one request. A rule decides alone. Without a rule, unfinished requests of an interrupted batch are
 * canceled or expired, and the configured fractions of the others fail.
 */
export function verdictOn(
  state: SimulatorState,
  ending: Ending,
  batch: { readonly id: string; readonly seq: number },
  customId: string,
  contentHash: string,
  text: () => string,
): Verdict {
  const { seed, settings, rules } = state;
  if (rules.judgeRequests()) {
    const found = rules.outcomeFor({ batchId: batch.id, batchSeq: batch.seq, customId, contentHash, text });
    if (found !== undefined) return byOutcome(state, found.outcome, found.ruleId, customId, contentHash);
  }
  if (ending.cause !== 'done') {
    const place = drawFrom(seed, 'place', batch.seq, customId);
    if (ending.cause === 'expired' && place >= ending.progress) return EXPIRED;
    if (ending.cause === 'canceled' && place >= ending.progress) {
      const { in_work, started_succeed } = settings.cancel;
      const started = place < ending.progress + in_work;
      if (!started || drawFrom(seed, 'uninterruptible', batch.seq, customId) >= started_succeed)
        return CANCELED;
    }
  }
  const { outcomes } = settings;
  if (outcomes.errored > 0 && drawFrom(seed, 'errored', customId) < outcomes.errored) {
    return { kind: 'errored', type: outcomes.errored_type, message: outcomes.errored_message };
  }
  if (outcomes.expired > 0 && drawFrom(seed, 'expired', customId) < outcomes.expired) return EXPIRED;
  return ANSWER;
}
