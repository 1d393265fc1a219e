import { EgressError, type Egress, type EgressOptions, type EgressRequest } from '@nightshift/egress';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import type { Breakers } from './breaker.ts';
import type { Progress } from './progress.ts';

/** Longest answer. Unit: bytes. */
const ANSWER_BYTES_MAX = 1024 * 1024;
const REDIRECTS_MAX = 3;

/** The network, as the runners of calls see it. */
export interface Net {
  readonly egress: Egress;
  readonly breakers: Breakers;
  /** Monotonic time. Unit: milliseconds. */
  readonly nowMs: () => number;
}

/** A whole answer. */
export interface Answer {
  readonly status: number;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

type Options = Pick<EgressOptions, 'allow_private' | 'allowed_hosts' | 'keep_alive' | 'timeout_ms'> & {
  readonly signal: AbortSignal;
};

/** Statuses of a server that cannot serve now. */
export const AWAY: ReadonlySet<number> = new Set([502, 503, 504]);

/**
 * Sends a request once and reads its answer; keeps up `progress` and the breaker of the host.
 * A request to a host that rests waits for the end of the rest.
 * Throws: {@link EgressError}, `unreachable` without an attempt if the host rests beyond the timeout.
 */
export async function exchange(
  request: EgressRequest,
  options: Options,
  progress: Progress,
  net: Net,
): Promise<Answer> {
  const { egress, breakers, nowMs } = net;
  const host = URL.parse(request.url)?.host ?? '';
  const deadlineMs = nowMs() + options.timeout_ms;
  await untilCallable(host, deadlineMs, options.signal, net);
  progress.attempts += 1;
  try {
    const limits = {
      timeout_ms: Math.max(1, Math.ceil(deadlineMs - nowMs())),
      redirects_max: REDIRECTS_MAX,
      answer_bytes_max: ANSWER_BYTES_MAX,
    };
    const { status, url, headers, body } = await egress.request(request, { ...options, ...limits });
    progress.started = true;
    const answer = { status, url, headers, text: await text(counted(body, progress)) };
    breakers.record(host, !AWAY.has(status), nowMs());
    return answer;
  } catch (error) {
    if (!(error instanceof EgressError)) throw error;
    progress.started ||= error.sent;
    if (error.code === 'unreachable' || error.code === 'timed_out') breakers.record(host, false, nowMs());
    throw error;
  }
}

/** Resolves when the host may be called. Throws: it rests beyond the deadline, or the caller gave up. */
export async function untilCallable(
  host: string,
  deadlineMs: number,
  signal: AbortSignal,
  { breakers, nowMs }: Net,
): Promise<void> {
  while (!breakers.mayCall(host, nowMs())) {
    const restMs = Math.ceil(breakers.restMs(host, nowMs()));
    if (nowMs() + restMs >= deadlineMs) {
      const told = `${host} does not answer and is not called for ${Math.ceil(restMs / 1_000)} s; try again later`;
      throw new EgressError('unreachable', told, false);
    }
    await wait(restMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) throw new EgressError('aborted', 'the caller gave up', false);
  }
}

async function* counted(body: AsyncIterable<Uint8Array>, progress: Progress): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    progress.answer_bytes += piece.length;
    yield piece;
  }
}
