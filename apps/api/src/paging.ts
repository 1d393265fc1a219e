import type { WirePrefix } from '@nightshift/agent-core';
import type { Page } from '@nightshift/db';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { wireId } from './schemas/ids.ts';

/** Characters of a `Link` header at most: clients refuse an answer whose headers are larger than 16 KiB together. */
const LINK_CHARS_MAX = 8_000;

/** Items of one page at most. */
const LIMIT_MAX = 1_000;
/** Changes of memory on one page at most: each is compared while others wait. */
export const CHANGES_MAX = 200;

/** How many items a page holds at most. */
export function pageLimit(standard: number, max = LIMIT_MAX) {
  return z
    .int()
    .min(1)
    .max(max)
    .default(standard)
    .describe(
      'A page may hold fewer than `limit`, where its items are large: go on while there is a `Link` header with rel="next", ' +
        'or until a page is empty.',
    );
}

/** The query parameters that every list takes. The cursors are ids of items of the list. */
export function pageQuery<Prefix extends WirePrefix>(
  prefix: Prefix,
  defaults: { readonly limit: number; readonly order: 'asc' | 'desc' },
) {
  return {
    after: wireId(prefix).optional().describe('Id of an item: the page holds those that follow it.'),
    before: wireId(prefix).optional().describe('Id of an item: the page holds those just before it.'),
    limit: pageLimit(defaults.limit),
    order: z.enum(['asc', 'desc']).default(defaults.order),
    order_by: z.literal('created_at').optional(),
  };
}

/** The part of a list that a query asks for. */
export function toPage(query: {
  readonly after?: string | undefined;
  readonly before?: string | undefined;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}): Page {
  return { limit: query.limit, order: query.order, after: query.after ?? null, before: query.before ?? null };
}

/**
 * Sets the `Link` header of a page: `next` and `prev` where there may be more on that side; a page that is cut for its size is
 * as good as a full one. An empty page is the end and has neither, and a link that would be too long is left out.
 */
export function linkPages(
  request: FastifyRequest,
  reply: FastifyReply,
  ids: readonly string[],
  page: Page,
  isCut = false,
): void {
  const first = ids[0];
  const last = ids.at(-1);
  if (first === undefined || last === undefined) return;
  const isFull = isCut || ids.length >= page.limit;
  const hasNext = page.before !== null || isFull;
  const hasPrevious = page.after !== null || (page.before !== null && isFull);
  const links = [
    ...(hasNext ? [linkTo(request, 'after', last, 'next')] : []),
    ...(hasPrevious ? [linkTo(request, 'before', first, 'prev')] : []),
  ];
  while (links.join(', ').length > LINK_CHARS_MAX) links.pop();
  if (links.length > 0) void reply.header('link', links.join(', '));
}

/** Sets the `Link` header of a part of a range: `next` is what lies beyond this item. A bound on the other side stays. */
export function linkNext(
  request: FastifyRequest,
  reply: FastifyReply,
  parameter: 'after' | 'before',
  id: string,
): void {
  const url = new URL(request.url, 'http://localhost');
  url.searchParams.set(parameter, id);
  const link = `<${url.pathname}${url.search}>; rel="next"`;
  if (link.length <= LINK_CHARS_MAX) void reply.header('link', link);
}

function linkTo(
  request: FastifyRequest,
  parameter: 'after' | 'before',
  id: string,
  relation: string,
): string {
  const url = new URL(request.url, 'http://localhost');
  // `cursor` is how older clients say `after` of the messages of a batch.
  for (const name of ['after', 'before', 'cursor']) url.searchParams.delete(name);
  url.searchParams.set(parameter, id);
  return `<${url.pathname}${url.search}>; rel="${relation}"`;
}
