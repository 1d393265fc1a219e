import type { Event } from './generated/types.gen.ts';
import type { Send } from './send.ts';
import { serverSentEventsOf } from './server-sent-events.ts';
import { backoffOf, pause } from './transport.ts';

/** Options of `events`. */
export interface EventsOptions {
  /** Id of the last event that is known. Default: events from now on. */
  readonly after?: string;
  /** Ends the stream; the iterator throws the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Yields the events of all batches, each once, without end. After a cut it goes on behind the last event. */
export async function* eventsOf(
  send: Send,
  { after, signal }: EventsOptions,
): AsyncGenerator<Event, never, undefined> {
  let seen = after;
  let isStarted = false;
  for (let cuts = 1; ; cuts++) {
    const answer = await send('GET', '/v1/events', {
      headers: { accept: 'text/event-stream', ...(seen === undefined ? {} : { 'last-event-id': seen }) },
      signal,
      retriesMax: isStarted ? Infinity : undefined,
      isStream: true,
    });
    isStarted = true;
    try {
      for await (const { id, data } of serverSentEventsOf(answer.body)) {
        yield JSON.parse(data) as Event;
        seen = id;
        cuts = 1;
      }
    } catch {
      signal?.throwIfAborted();
    }
    await pause(backoffOf(cuts), signal);
  }
}
