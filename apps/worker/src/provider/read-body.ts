import type { Exchange } from './exchange.ts';
import { reasonOf, redact } from './failure.ts';
import { ResultsInterrupted } from './port.ts';

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

/**
 * The body as it comes. Ends the exchange when it is through, when it breaks off, when it has been silent for
 * `idleTimeoutMs`, and when the loop over it is left. Time the consumer takes for itself does not count as silence.
 *
 * Node's fetch gives a body up by itself after 300 s of silence, so a longer `idleTimeoutMs` has no effect.
 */
export async function* readBodyChunks(
  body: ReadableStream<Uint8Array>,
  options: { readonly exchange: Exchange; readonly idleTimeoutMs: number; readonly apiKey: string },
): AsyncGenerator<Buffer, void, undefined> {
  const { exchange, idleTimeoutMs, apiKey } = options;
  const reader = body.getReader();
  // Widened, because the timer sets it where the compiler does not look.
  let isIdle = false as boolean;
  try {
    for (;;) {
      const timer = setTimeout(() => {
        isIdle = true;
        exchange.close();
      }, idleTimeoutMs);
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
      const { buffer, byteOffset, byteLength } = read.value;
      yield Buffer.from(buffer, byteOffset, byteLength);
    }
  } finally {
    exchange.close();
    // Already broken or aborted: there is nobody left to tell.
    await reader.cancel().catch(() => undefined);
  }
}
