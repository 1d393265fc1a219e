import { outputPercentile, type WorkStatistics } from './work-statistics.ts';

/** Answers from which a limit follows them. */
const ANSWERS_MIN = 10;
/** Share of the answers that the limit leaves alone, before its margin. */
const SHARE = 0.99;
const MARGIN = 1.5;
const LIMIT_MIN = 256;

/**
 * Returns `max_tokens` for a request under a cap: a high percentile of the answers of such work with a margin, at most
 * `max_tokens`. Without enough answers, `max_tokens`.
 * Thinking of a fixed budget keeps room for an answer behind it.
 */
export function answerLimit(
  stats: WorkStatistics | null,
  { max_tokens, thinking_tokens }: { readonly max_tokens: number; readonly thinking_tokens: number },
): number {
  const written = stats === null || stats.answers < ANSWERS_MIN ? null : outputPercentile(stats, SHARE);
  if (written === null) return max_tokens;
  return Math.min(max_tokens, Math.max(Math.ceil(written * MARGIN), thinking_tokens + LIMIT_MIN));
}
