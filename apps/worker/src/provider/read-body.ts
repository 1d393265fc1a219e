import type { Exchange } from './exchange.ts';
import { reasonOf, redact } from './failure.ts';
import { ResultsInterrupted, type MinimalRate } from './port.ts';

/**
 * Reads a whole body as text.
 * Throws: when the body is longer than `maxBytes`, or is cut.
 */
export async function readText(response: Response, maxBytes: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

export interface BodyPace {
  readonly idleTimeoutMs: number;
  /** Default: any rate. */
  readonly rate?: MinimalRate | undefined;
  /** Monotonic clock in ms. Default: `performance.now`. */
  readonly now?: (() => number) | undefined;
}

/**
 * Yields a body chunk by chunk, and closes the exchange at its end, on an error, or when the consumer stops.
 * The time that the consumer takes between two chunks counts neither as idle nor against the rate.
 * Throws: {@link ResultsInterrupted} when the body is cut, silent for `idleTimeoutMs`, or slower than `rate`. Node's fetch
 * itself gives up after 300 s of silence, so a longer `idleTimeoutMs` has no effect.
 */
export async function* readBodyChunks(
  body: ReadableStream<Uint8Array>,
  options: BodyPace & { readonly exchange: Exchange; readonly apiKey: string },
): AsyncGenerator<Buffer, void, undefined> {
  const { exchange, idleTimeoutMs, apiKey, rate, now = () => performance.now() } = options;
  const isTooSlow = createRateCheck(rate);
  const reader = body.getReader();
  // Widened, because the compiler does not see the assignment in the timer.
  let isIdle = false as boolean;
  try {
    for (;;) {
      const timer = setTimeout(() => {
        isIdle = true;
        exchange.close();
      }, idleTimeoutMs);
      const askedAt = now();
      let read: Awaited<ReturnType<typeof reader.read>>;
      try {
        read = await reader.read();
      } catch (error) {
        if (isIdle) throw new ResultsInterrupted(`silent for ${idleTimeoutMs} ms`);
        if (exchange.signal.aborted) throw new ResultsInterrupted('aborted by the caller');
        throw new ResultsInterrupted(redact(reasonOf(error), apiKey));
      } finally {
        clearTimeout(timer);
      }
      if (read.done) return;
      if (rate !== undefined && isTooSlow(read.value.byteLength, now() - askedAt)) {
        throw new ResultsInterrupted(
          `slower than ${rate.bytesPerSecond} bytes a second over ${rate.windowMs} ms`,
        );
      }
      const { buffer, byteOffset, byteLength } = read.value;
      yield Buffer.from(buffer, byteOffset, byteLength);
    }
  } finally {
    exchange.close();
    // Fails when the body is already broken or aborted.
    await reader.cancel().catch(() => undefined);
  }
}

/** Returns a function that sums bytes and waiting time per window; true when a full window was below the rate. */
function createRateCheck(rate: MinimalRate | undefined): (bytes: number, waitedMs: number) => boolean {
  let windowBytes = 0;
  let windowMs = 0;
  return (bytes, waitedMs) => {
    windowBytes += bytes;
    windowMs += waitedMs;
    if (rate === undefined || windowMs < rate.windowMs) return false;
    const isTooSlow = windowBytes * 1_000 < rate.bytesPerSecond * windowMs;
    windowBytes = 0;
    windowMs = 0;
    return isTooSlow;
  };
}
