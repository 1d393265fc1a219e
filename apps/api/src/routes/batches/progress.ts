import { NightshiftError, toUsd } from '@nightshift/agent-core';
import {
  BUCKET_MINUTES,
  readBatch,
  readBatchProgress,
  readTimeline,
  readTimelineMinutes,
  type Bucket,
} from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { isUnchanged } from '../../etag.ts';
import { notModified, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { progressResponse, timelineResponse } from '../../schemas/progress.ts';
import { toProgressResponse, versionTag } from '../../wire/to-progress.ts';

const params = z.object({ job_id: wireId('job') });

/** Serves the progress of a batch alone. */
export function retrieveProgress(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/progress`,
    {
      schema: {
        operationId: 'retrieveBatchProgress',
        summary: 'Read the progress of a batch',
        description:
          'Send the `ETag` of the last answer as `If-None-Match`: an unchanged progress is a 304 without a body.',
        tags: ['batches'],
        hide,
        params,
        response: { 200: progressResponse, ...notModified, ...problems },
      },
    },
    async (request, reply) => {
      const read = await readBatchProgress(context.db, context.projectId, request.params.job_id);
      const progress = toProgressResponse(read);
      if (isUnchanged(request, reply, versionTag(read.version, progress))) return reply.send(undefined);
      return progress;
    },
  );
}

/** Most buckets of a timeline. */
const BUCKETS_MAX = 1_440;

/** Serves the chart of a batch. */
export function retrieveTimeline(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/timeline`,
    {
      schema: {
        operationId: 'retrieveBatchTimeline',
        summary: 'Read the ends, failures, tokens and cost of a batch over time',
        tags: ['batches'],
        hide,
        params,
        querystring: z.strictObject({
          bucket: z
            .enum(['1m', '5m', '15m', '1h'])
            .optional()
            .describe(
              'Width of a bucket. Default: the smallest with which the whole batch fits into `limit` buckets.',
            ),
          limit: z.int().min(1).max(BUCKETS_MAX).default(288).describe('The last buckets of the batch.'),
        }),
        response: { 200: timelineResponse, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      const { limit } = request.query;
      await readBatch(context.db, context.projectId, job_id);
      const bucket =
        request.query.bucket ?? smallestBucket(await readTimelineMinutes(context.db, job_id), limit);
      const buckets = await readTimeline(context.db, job_id, bucket, limit);
      return {
        bucket,
        buckets: buckets.map(({ from, cost_nanousd, ...counts }) => ({
          from: from.toISOString(),
          ...counts,
          cost_usd: toUsd(cost_nanousd),
        })),
      };
    },
  );
}

function smallestBucket(minutes: number, limit: number): Bucket {
  const widths = Object.entries(BUCKET_MINUTES) as [Bucket, number][];
  return widths.find(([, width]) => minutes / width < limit)?.[0] ?? '1h';
}

/** The id of an event of the stream. */
const EVENT_ID = /^\d{1,18}-[\w-]{11}$/;

/** Streams the progress of a batch until its end. */
export function streamBatchEvents(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/events`,
    {
      schema: {
        operationId: 'streamBatchEvents',
        summary: 'Follow the progress of a batch',
        description:
          'Server-sent events `progress`, at most four a second, and a last `done`; each holds the whole progress, and its id ' +
          'is the version. A client that reconnects with `Last-Event-ID` gets the present progress if it has changed. After ' +
          '`done` a reconnect is a 204, which ends an EventSource.',
        tags: ['batches'],
        hide,
        params,
        querystring: z.strictObject({
          last_event_id: z
            .string()
            .meta({ pattern: EVENT_ID.source })
            .optional()
            .describe('Like the header `Last-Event-ID`, for clients that cannot set it.'),
        }),
        response: {
          200: {
            description: 'Events',
            content: { 'text/event-stream': { schema: z.string() } },
          },
          204: z.undefined().describe('The batch has ended, and the client has its last event'),
          ...problems,
        },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const known = request.headers['last-event-id'] ?? request.query.last_event_id ?? null;
      if (known !== null && (typeof known !== 'string' || !EVENT_ID.test(known))) throw unknownEvent();
      const read = await readBatchProgress(context.db, context.projectId, job_id);
      const progress = toProgressResponse(read);
      if (progress.phase === 'done' && versionTag(read.version, progress) === known)
        return reply.code(204).send();
      return context.streams.send(reply, context.batchWatch.follow(job_id, known));
    },
  );
}

function unknownEvent(): NightshiftError {
  const message = 'must be the id of an event of this stream';
  const fields = [{ path: 'Last-Event-ID', message }];
  return new NightshiftError('validation_failed', `Last-Event-ID ${message}.`, { fields });
}
