import { apiFailure } from '../api-error.ts';
import type { SimulatorState } from '../state.ts';

/**
 * Takes one request from a workspace's token bucket, which follows the simulator's clock.
 * Returns the rate-limit headers of the reply, none without a limit.
 * Throws: the provider's 429 when the bucket is empty.
 */
export function takeFromBudget(state: SimulatorState, workspace: string): Record<string, string> {
  const limit = state.settings.limits.requests_per_minute;
  if (limit === null) return {};
  const nowMs = state.clock.now();
  const bucket = state.budgets.get(workspace) ?? { tokens: limit, atMs: nowMs };
  bucket.tokens = Math.min(limit, bucket.tokens + ((nowMs - bucket.atMs) / 60_000) * limit);
  bucket.atMs = nowMs;
  state.budgets.set(workspace, bucket);
  const missing = Math.max(0, 1 - bucket.tokens);
  const headers = {
    'anthropic-ratelimit-requests-limit': String(limit),
    'anthropic-ratelimit-requests-remaining': String(Math.max(0, Math.floor(bucket.tokens - 1))),
    'anthropic-ratelimit-requests-reset': new Date(nowMs + (missing / limit) * 60_000).toISOString(),
  };
  if (missing > 0) {
    const retryAfter = String(Math.ceil((missing / limit) * 60));
    throw apiFailure(
      'rate_limit_error',
      `This request would exceed your rate limit of ${limit} requests per minute.`,
      {
        ...headers,
        'retry-after': retryAfter,
      },
    );
  }
  bucket.tokens -= 1;
  return headers;
}
