import { Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyReply } from 'fastify';
import { createWaker, type Waker } from './waker.ts';

/** One event of a stream; the client sends the `id` of the last one when it reconnects. */
export interface StreamedEvent {
  readonly id: string;
  readonly event: string;
  readonly data: object;
}

/**
 * The events of one stream; null is a heartbeat. They end when the waker has ended. The next event is asked for when the client
 * has taken the last, so a slow client costs no memory.
 */
export type EventSource = (waker: Waker) => AsyncGenerator<StreamedEvent | null>;

/** The open streams of this process. */
export interface Streams {
  /** Answers with a stream. Throws: `not_ready` beyond the limit of streams. */
  send(reply: FastifyReply, events: EventSource): FastifyReply;
  /** Ends all streams. */
  close(): void;
}

/** Delay before a client reconnects. Unit: milliseconds. */
const RETRY_MS = 3_000;

/** Creates the streams of a process, at most `max` at once. */
export function createStreams(max: number): Streams {
  const open = new Set<Waker>();
  return {
    send: (reply, events) => {
      if (open.size >= max) {
        throw new NightshiftError(
          'not_ready',
          `This process serves ${max} event streams, its limit EVENT_STREAMS_MAX. Close some, or poll with If-None-Match.`,
        );
      }
      const waker = createWaker();
      open.add(waker);
      // Also emitted when the client disconnects.
      reply.raw.once('close', () => {
        open.delete(waker);
        waker.end();
      });
      void reply
        .type('text/event-stream; charset=utf-8')
        // Proxies must pass each event on at once.
        .headers({ 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' });
      const frames = Readable.from(framesOf(events(waker)), { objectMode: false, highWaterMark: 1 });
      return reply.send(frames);
    },
    close: () => open.forEach((waker) => waker.end()),
  };
}

async function* framesOf(events: AsyncGenerator<StreamedEvent | null>): AsyncGenerator<Buffer> {
  yield Buffer.from(`retry: ${RETRY_MS}\n\n`);
  for await (const event of events) yield Buffer.from(event === null ? ':\n\n' : frameOf(event));
}

/** JSON holds no line break, so `data` is one line. */
function frameOf({ id, event, data }: StreamedEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
