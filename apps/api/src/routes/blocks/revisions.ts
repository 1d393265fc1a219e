import { toWireId } from '@nightshift/agent-core';
import { listBlockRevisions as readPage, readBlock, readBlockRevisions, refuseCursor } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { blockDiff, blockRevision, blockRevisionWithValue } from '../../schemas/memory.ts';
import { toBlockRevision, toChange } from '../../wire/to-memory-change.ts';

export const revisionNumber = z.int().min(1).max(2_147_483_647);

export function listBlockRevisions(app: App, context: Context): void {
  app.get(
    '/v1/blocks/:block_id/revisions',
    {
      schema: {
        operationId: 'listBlockRevisions',
        summary: 'List the writes of a block, newest first, without their texts',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        querystring: z.strictObject({
          after: revisionNumber.optional().describe('A revision; the page holds the revisions after it.'),
          before: revisionNumber
            .optional()
            .describe('A revision; the page holds the revisions just before it.'),
          limit: pageLimit(50),
          order: z.enum(['asc', 'desc']).default('desc'),
        }),
        response: { 200: z.array(blockRevision), ...problems },
      },
    },
    async (request, reply) => {
      const { block_id } = request.params;
      const { after = null, before = null, limit, order } = request.query;
      const { revision } = await readBlock(context.db, context.projectId, block_id);
      if (after !== null && after > revision) refuseCursor('after');
      if (before !== null && before > revision) refuseCursor('before');
      const { rows, is_cut } = await readPage(context.db, block_id, { after, before, limit, order });
      const ids = rows.map((row) => String(row.revision));
      const page = {
        limit,
        order,
        after: after === null ? null : String(after),
        before: before === null ? null : String(before),
      };
      linkPages(request, reply, ids, page, is_cut);
      return rows.map(toBlockRevision);
    },
  );
}

export function retrieveBlockRevision(app: App, context: Context): void {
  app.get(
    '/v1/blocks/:block_id/revisions/:revision',
    {
      schema: {
        operationId: 'retrieveBlockRevision',
        summary: 'Read a block at a revision',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block'), revision: z.coerce.number().pipe(revisionNumber) }),
        response: { 200: blockRevisionWithValue, ...problems },
      },
    },
    async (request) => {
      const { block_id, revision } = request.params;
      await readBlock(context.db, context.projectId, block_id);
      const rows = await readBlockRevisions(context.db, block_id, [revision]);
      const [row] = [...rows.values()].map((found) => ({ ...toBlockRevision(found), value: found.value }));
      return row;
    },
  );
}

export function diffBlock(app: App, context: Context): void {
  app.get(
    '/v1/blocks/:block_id/diff',
    {
      schema: {
        operationId: 'diffBlock',
        summary: 'Compare two revisions of a block',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        querystring: z.strictObject({
          from: revisionNumber,
          to: revisionNumber.optional().describe('Default: the present revision.'),
        }),
        response: { 200: blockDiff, ...problems },
      },
    },
    async (request) => {
      const { block_id } = request.params;
      const block = await readBlock(context.db, context.projectId, block_id);
      const { from, to = block.revision } = request.query;
      const rows = await readBlockRevisions(context.db, block_id, [from, to]);
      const change = toChange({
        label: block.label,
        from_revision: from,
        to_revision: to,
        before: rows.get(from)?.value ?? '',
        after: rows.get(to)?.value ?? '',
      });
      return { block_id: toWireId('block', block_id), ...change };
    },
  );
}
