import { listBatches as readPage } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { isUnchanged } from '../../etag.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { notModified, problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { batchFilters } from '../../schemas/batch-filters.ts';
import { wireId } from '../../schemas/ids.ts';
import { toBatchResponse } from '../../wire/to-batch.ts';
import { versionTag } from '../../wire/to-progress.ts';
import { readShownBatch } from './shown-batch.ts';

export function retrieveBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id`,
    {
      schema: {
        operationId: 'retrieveBatch',
        summary: 'Read a batch, its progress and its cost',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        response: { 200: batchResponse, ...notModified, ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { batch, version } = await readShownBatch(context, job_id);
      if (isUnchanged(request, reply, versionTag(version, batch))) return reply.send(undefined);
      return batch;
    },
  );
}

export function listBatches(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    path,
    {
      schema: {
        operationId: 'listBatches',
        summary: 'List batches',
        description:
          'Filters: one of `state`, `tag`, `name`, `schedule_id`, `retry_of` and `metadata`, with the times; a state of open ' +
          'batches can be added to another filter. Filters that no index serves together are a 422.',
        tags: ['batches'],
        hide,
        querystring: z.strictObject({
          ...pageQuery('job', { limit: 100, order: 'desc' }),
          ...batchFilters,
        }),
        response: { 200: z.array(batchResponse), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const { rows, is_cut } = await readPage(context.db, context.projectId, page, request.query);
      const jobs = rows.map(toBatchResponse);
      linkPages(
        request,
        reply,
        jobs.map((job) => job.id),
        page,
        is_cut,
      );
      return jobs;
    },
  );
}
