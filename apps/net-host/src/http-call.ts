import type { SideEffects } from '@nightshift/agent-core';
import {
  readHttpResult,
  renderHttpRequest,
  type HttpRequest,
} from '@nightshift/agent-core/tools/http-request';
import { withoutSecrets } from '@nightshift/agent-core/tools/without-secrets';
import { EgressError } from '@nightshift/egress';
import { STATUS_CODES } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { HttpCall } from './contract.ts';
import { exchange, type Answer, type Net } from './exchange.ts';
import { failed, startOf, succeeded, type Outcome, type Progress } from './progress.ts';
import { retryDelayMs } from './retry-delay.ts';

const ATTEMPTS_MAX = 3;
/** Answers after which a repeat may help. */
const REPEATABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** An attempt: its outcome, and whether a repeat may help. */
interface Attempt {
  readonly outcome: Outcome;
  readonly isRepeatable: boolean;
  readonly retryAfter?: string | undefined;
}

/**
 * Calls an HTTP tool, with retries within its timeout unless its side effect may happen once only.
 * Secrets are cut out of the outcome, whatever the server sends.
 */
export async function runHttpCall(
  call: HttpCall,
  progress: Progress,
  signal: AbortSignal,
  net: Net,
): Promise<Outcome> {
  const rendered = renderHttpRequest(call.http, call.arguments, call.secrets);
  if (!rendered.ok) return failed(rendered.message);
  const deadlineMs = net.nowMs() + call.timeout_ms;
  for (;;) {
    const { outcome, isRepeatable, retryAfter } = await attempt(
      call,
      rendered.request,
      deadlineMs,
      progress,
      signal,
      net,
    );
    const delayMs = retryDelayMs(progress.attempts, retryAfter, Date.now(), Math.random());
    const isLast =
      !isRepeatable ||
      call.side_effects === 'once' ||
      progress.attempts >= ATTEMPTS_MAX ||
      net.nowMs() + delayMs >= deadlineMs;
    if (isLast) return outcome;
    await wait(delayMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return GIVEN_UP;
  }
}

async function attempt(
  call: HttpCall,
  request: HttpRequest,
  deadlineMs: number,
  progress: Progress,
  signal: AbortSignal,
  net: Net,
): Promise<Attempt> {
  const { attempts } = progress;
  const headers = { ...request.headers, 'idempotency-key': call.idempotency_key };
  const options = {
    allow_private: call.allow_private,
    keep_alive: call.side_effects !== 'once',
    timeout_ms: Math.max(1, Math.ceil(deadlineMs - net.nowMs())),
    signal,
  };
  try {
    const answer = await exchange({ ...request, headers }, options, progress, net);
    const retryAfter = answer.headers['retry-after'];
    return { outcome: outcomeOf(answer, call), isRepeatable: REPEATABLE.has(answer.status), retryAfter };
  } catch (error) {
    if (!(error instanceof EgressError)) throw error;
    // Without an attempt, the host rests beyond the deadline.
    const isRepeatable = error.code === 'unreachable' && progress.attempts > attempts;
    const outcome = outcomeOfError(error, call.side_effects);
    return { outcome: { ...outcome, text: withoutSecrets(outcome.text, call.secrets) }, isRepeatable };
  }
}

/** Translates an answer for the model. Secrets go before a text is cut, and after JSON has been unescaped. */
function outcomeOf({ status, text }: Answer, { http, secrets }: HttpCall): Outcome {
  const start = startOf(withoutSecrets(text, secrets));
  if (status < 200 || status > 299) {
    const reason = STATUS_CODES[status] === undefined ? '' : ` ${STATUS_CODES[status]}`;
    return failed(`HTTP ${status}${reason}${start === '' ? '' : `: ${start}`}`);
  }
  const result = readHttpResult(text, http.result);
  return result.ok
    ? succeeded(withoutSecrets(result.text, secrets))
    : failed(`${result.message}; it begins: ${start}`);
}

export const GIVEN_UP: Outcome = { status: 'crashed', text: 'the caller gave up' };

/**
 * Translates an error of the client. A request that was sent may have taken effect: its call is broken off, not failed, if it
 * may not be repeated or has no answer.
 */
export function outcomeOfError(
  { code, message, sent }: EgressError,
  sideEffects: SideEffects = 'none',
): Outcome {
  const isDone = sent && sideEffects === 'once';
  switch (code) {
    case 'timed_out':
      return { status: 'timed_out', text: 'the server did not answer in time' };
    case 'aborted':
      return GIVEN_UP;
    case 'too_large':
      return isDone ? { status: 'crashed', text: message } : failed(`${message}; ask for a smaller part`);
    case 'private_address':
    case 'refused':
      return { status: isDone ? 'crashed' : 'failed', text: `the request was refused: ${message}` };
    case 'unreachable':
      return { status: sent ? 'crashed' : 'failed', text: `the request got no answer: ${message}` };
  }
}
