import type { Exchange } from './exchange.ts';
import { reasonOf, redact } from './failure.ts';
import { ResultsInterrupted, type MinimalRate } from './port.ts';

/** The whole body as text; throws when it is longer than `maxBytes` or breaks off. */
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
  /** Default: any. */
  readonly rate?: MinimalRate | undefined;
  /** Monotonic milliseconds; default `performance.now`. */
  readonly now?: (() => number) | undefined;
}

/**
 * The body as it comes. Ends the exchange when it is through, when it breaks off, when it has been silent for
 * `idleTimeoutMs`, when it comes slower than its rate, and when the loop over it is left. Time the consumer takes for itself
 * counts as neither.
 *
 * Node's fetch gives a body up by itself after 300 s of silence, so a longer `idleTimeoutMs` has no effect.
 */
export async function* readBodyChunks(
  body: ReadableStream<Uint8Array>,
  options: BodyPace & { readonly exchange: Exchange; readonly apiKey: string },
): AsyncGenerator<Buffer, void, undefined> {
  const { exchange, idleTimeoutMs, apiKey, rate, now = () => performance.now() } = options;
  const isTooSlow = createRateCheck(rate);
  const reader = body.getReader();
  // Widened, because the timer sets it where the compiler does not look.
  let isIdle = false as boolean;
  try {
    for (;;) {
      const timer = setTimeout(() => {
        isIdle = true;
        exchange.close();
      }, idleTimeoutMs);
      const asked = now();
      let read: Awaited<ReturnType<typeof reader.read>>;
      try {
        read = await reader.read();
      } catch (error) {
        if (isIdle) throw new ResultsInterrupted(`silent for ${idleTimeoutMs} ms`);
        if (exchange.signal.aborted) throw new ResultsInterrupted('given up by the caller');
        throw new ResultsInterrupted(redact(reasonOf(error), apiKey));
      } finally {
        clearTimeout(timer);
      }
      if (read.done) return;
      if (rate !== undefined && isTooSlow(read.value.byteLength, now() - asked)) {
        throw new ResultsInterrupted(
          `slower than ${rate.bytesPerSecond} bytes a second over ${rate.windowMs} ms`,
        );
      }
      const { buffer, byteOffset, byteLength } = read.value;
      yield Buffer.from(buffer, byteOffset, byteLength);
    }
  } finally {
    exchange.close();
    // Already broken or aborted: there is nobody left to tell.
    await reader.cancel().catch(() => undefined);
  }
}

/** Adds what came and how long it was waited for; true where a window was waited through for fewer bytes than the rate asks. */
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
