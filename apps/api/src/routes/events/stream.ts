import { fromEventId, NightshiftError } from '@nightshift/agent-core';
import { isEventPlaceKnown, readEvents, readLastEventPlace, type EventPlace } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkNext, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { eventResponse, shownEventId } from '../../schemas/progress.ts';
import { toEventResponse } from '../../wire/to-progress.ts';

/** Streams or lists rare changes of all batches and schedules. */
export function streamEvents(app: App, context: Context): void {
  app.get(
    '/v1/events',
    {
      schema: {
        operationId: 'streamEvents',
        summary: 'Follow or list changes of batches and schedules',
        description:
          'Server-sent events from now on, or after `Last-Event-ID`. With `Accept: application/json` a page of the kept events, ' +
          'the oldest first. Each event comes once, in an order that does not change. Events are kept for 30 days.',
        tags: ['events'],
        querystring: z.strictObject({
          after: shownEventId.optional().describe('Id of an event; the answer begins after it.'),
          last_event_id: shownEventId.optional().describe('Like `after`.'),
          limit: pageLimit(100),
        }),
        response: {
          200: {
            description: 'Events',
            content: {
              'application/json': { schema: z.array(eventResponse) },
              'text/event-stream': { schema: z.string() },
            },
          },
          ...problems,
        },
      },
    },
    async (request, reply) => {
      const { headers, query } = request;
      const after = await placeOf(context, headers['last-event-id'] ?? query.last_event_id ?? query.after);
      if (!/^application\/json\b/.test(headers.accept ?? '')) {
        const from = after ?? (await readLastEventPlace(context.db));
        return context.streams.send(reply, context.eventFeed.follow(from));
      }
      const rows = await readEvents(context.db, context.projectId, after, query.limit);
      const events = rows.map(toEventResponse);
      const last = events.at(-1);
      if (last !== undefined && events.length === query.limit) linkNext(request, reply, 'after', last.id);
      return reply.type('application/json').send(events);
    },
  );
}

/** Parses an event id; null without one. Throws: `validation_failed`. */
async function placeOf(context: Context, id: string | string[] | undefined): Promise<EventPlace | null> {
  if (id === undefined) return null;
  const place = typeof id === 'string' ? fromEventId(id) : null;
  if (place !== null && (await isEventPlaceKnown(context.db, place))) return place;
  const message = 'must be the id of an event; list the kept events to find one';
  throw new NightshiftError('validation_failed', `after ${message}.`, {
    fields: [{ path: '?after', message }],
  });
}
