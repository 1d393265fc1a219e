import { listTags as readTags } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';

/** Lists the tags of all agents in alphabetical order. The cursor is a tag. */
export function listTags(app: App, context: Context): void {
  app.get(
    '/v1/tags',
    {
      schema: {
        operationId: 'listTags',
        summary: 'List the tags of agents',
        tags: ['tags'],
        querystring: z.strictObject({
          after: z.string().optional(),
          before: z.string().optional(),
          limit: pageLimit(50),
          order: z.enum(['asc', 'desc']).default('asc'),
          order_by: z.literal('name').optional(),
          name: z.string().optional(),
          query_text: z.string().optional().describe('Part of the tag.'),
        }),
        response: { 200: z.array(z.string()).meta({ examples: [['customer', 'night']] }), ...problems },
      },
    },
    async (request, reply) => {
      const { after, before, limit, order, name, query_text } = request.query;
      const sorted = (await readTags(context.db, context.projectId))
        .filter((tag) => name === undefined || tag === name)
        .filter((tag) => query_text === undefined || tag.toLowerCase().includes(query_text.toLowerCase()))
        .sort((a, b) => (a < b ? -1 : 1));
      const inOrder = order === 'asc' ? sorted : sorted.toReversed();
      const follows = (tag: string, cursor: string): boolean =>
        order === 'asc' ? tag > cursor : tag < cursor;
      const between = inOrder.filter(
        (tag) =>
          (after === undefined || follows(tag, after)) && (before === undefined || follows(before, tag)),
      );
      const tags = before === undefined ? between.slice(0, limit) : between.slice(-limit);
      linkPages(request, reply, tags, { after: after ?? null, before: before ?? null, limit, order });
      return tags;
    },
  );
}
