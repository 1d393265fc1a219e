import { EgressError, type Egress, type EgressOptions, type EgressRequest } from '@nightshift/egress';
import { text } from 'node:stream/consumers';
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

/** Returns the error of a host whose breaker is open. */
export function refusedByBreaker(host: string): EgressError {
  const message = `${host} does not answer and is not called for now; try again later`;
  return new EgressError('unreachable', message, false);
}

/**
 * Sends a request once and reads its answer; keeps up `progress` and the breaker of the host.
 * Throws: {@link EgressError}, `unreachable` also while the breaker is open.
 */
export async function exchange(
  request: EgressRequest,
  options: Options,
  progress: Progress,
  { egress, breakers, nowMs }: Net,
): Promise<Answer> {
  const host = URL.parse(request.url)?.host ?? '';
  if (!breakers.mayCall(host, nowMs())) throw refusedByBreaker(host);
  progress.attempts += 1;
  try {
    const limits = { redirects_max: REDIRECTS_MAX, answer_bytes_max: ANSWER_BYTES_MAX };
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

async function* counted(body: AsyncIterable<Uint8Array>, progress: Progress): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    progress.answer_bytes += piece.length;
    yield piece;
  }
}
