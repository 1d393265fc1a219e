import type { Batch, BatchProgress } from './generated/types.gen.ts';
import type { Send } from './send.ts';
import { isApiError } from './errors.ts';
import { serverSentEventsOf } from './server-sent-events.ts';
import { backoffOf, isTransient, pause } from './transport.ts';

/** Options of `batches.wait`. */
export interface WaitOptions {
  /** Called with each new progress; the last has the phase `done`. It has no cost: `batches.retrieve` has. */
  readonly onProgress?: (progress: BatchProgress) => void;
  /** Ends the waiting; the batch goes on. */
  readonly signal?: AbortSignal;
}

/** Time between two polls while the API refuses streams. */
const POLL_MS = 2_000;
/** Time after which a refused stream is asked for again. */
const REFUSED_MS = 60_000;

/** Waits until the batch has ended, and returns it. */
export async function waitForEnd(
  send: Send,
  id: string,
  { onProgress, signal }: WaitOptions,
): Promise<Batch> {
  for await (const progress of progressOf(send, id, signal)) onProgress?.(progress);
  const answer = await send('GET', `/v1/batches/${id}`, { signal, retriesMax: Infinity });
  return (await answer.json()) as Batch;
}

/**
 * Yields each new progress of the batch until its end. Reads events; after a cut, and while the API refuses streams, it polls.
 * The first request gives up like any other; later ones wait for the API however long it is away.
 */
async function* progressOf(
  send: Send,
  id: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<BatchProgress, void, undefined> {
  /** Id of the last event, which is the ETag of its progress. */
  let seen: string | undefined;
  let isReached = false;
  let streamsFrom = 0;
  for (let cuts = 0; ; cuts++) {
    const isRefused = Date.now() < streamsFrom;
    if (!isRefused) {
      try {
        for await (const { id: event, data } of openEvents(send, id, seen, signal)) {
          if (event !== '') seen = event;
          isReached = true;
          cuts = 0;
          const progress = JSON.parse(data) as BatchProgress;
          yield progress;
          if (progress.phase === 'done') return;
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (isApiError(error) && !isTransient(error) && !isUnsupported(error)) throw error;
        if (isApiError(error)) streamsFrom = Date.now() + REFUSED_MS;
      }
    }
    const answer = await send('GET', `/v1/batches/${id}/progress`, {
      headers: seen === undefined ? {} : { 'if-none-match': `"${seen}"` },
      signal,
      retriesMax: isReached ? Infinity : undefined,
    });
    isReached = true;
    if (answer.status !== 304) {
      seen = answer.headers.get('etag')?.replace(/^(W\/)?"|"$/g, '');
      const progress = (await answer.json()) as BatchProgress;
      yield progress;
      if (progress.phase === 'done') return;
    }
    await pause(isRefused ? POLL_MS * (0.75 + Math.random() / 4) : backoffOf(cuts + 1), signal);
  }
}

async function* openEvents(
  send: Send,
  id: string,
  seen: string | undefined,
  signal: AbortSignal | undefined,
) {
  const answer = await send('GET', `/v1/batches/${id}/events`, {
    headers: { accept: 'text/event-stream', ...(seen === undefined ? {} : { 'last-event-id': seen }) },
    signal,
    retriesMax: 0,
    isStream: true,
  });
  yield* serverSentEventsOf(answer.body);
}

/** An API or proxy without streams. */
function isUnsupported(error: unknown): boolean {
  return isApiError(error, 'unknown_path', 'method_not_allowed', 'unexpected');
}
