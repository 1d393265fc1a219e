import type { WirePrefix } from '@nightshift/agent-core';
import type { Page } from '@nightshift/db';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { wireId } from './schemas/ids.ts';

/** Longest `Link` header. Unit: characters. Clients refuse an answer with more than 16 KiB of headers. */
const LINK_CHARS_MAX = 8_000;

/** Most items of a page. */
const LIMIT_MAX = 1_000;
/** Most memory changes of a page: each is compared while other requests wait. */
export const CHANGES_MAX = 200;

/** Returns the schema of a page's limit. */
export function pageLimit(standard: number, max = LIMIT_MAX) {
  return z
    .int()
    .min(1)
    .max(max)
    .default(standard)
    .describe(
      'A page may hold fewer than `limit` items if its items are large: continue while there is a `Link` header with ' +
        'rel="next", or until a page is empty.',
    );
}

/** Returns the query parameters of every list. The cursors are item ids. */
export function pageQuery<Prefix extends WirePrefix>(
  prefix: Prefix,
  defaults: { readonly limit: number; readonly order: 'asc' | 'desc' },
) {
  return {
    after: wireId(prefix)
      .optional()
      .describe('Id of an item of the list; the page holds the items after it. Any other id is a 422.'),
    before: wireId(prefix).optional().describe('Id of an item; the page holds the items just before it.'),
    limit: pageLimit(defaults.limit),
    order: z.enum(['asc', 'desc']).default(defaults.order),
    order_by: z.literal('created_at').optional(),
  };
}

/** Returns the part of a list that a query asks for. */
export function toPage(query: {
  readonly after?: string | undefined;
  readonly before?: string | undefined;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}): Page {
  return { limit: query.limit, order: query.order, after: query.after ?? null, before: query.before ?? null };
}

/**
 * Sets the `Link` header of a page: `next` and `prev` if there may be more on that side. A page cut for its size counts as
 * full. An empty page is the end and has no links. Omits links that would be too long.
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

/** Sets the `Link` header of a part of a range: `next` is the part beyond the item. The other bound stays. */
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
  // Older clients use `cursor` for `after` of a batch's messages.
  for (const name of ['after', 'before', 'cursor']) url.searchParams.delete(name);
  url.searchParams.set(parameter, id);
  return `<${url.pathname}${url.search}>; rel="${relation}"`;
}
