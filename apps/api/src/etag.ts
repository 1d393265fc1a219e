import type { FastifyReply, FastifyRequest } from 'fastify';

/** Sets the strong `ETag` of an answer. Returns true, with status 304, if the client has this version. */
export function isUnchanged(request: FastifyRequest, reply: FastifyReply, tag: string): boolean {
  const etag = `"${tag}"`;
  void reply.header('etag', etag).header('cache-control', 'no-cache');
  const known = request.headers['if-none-match'];
  if (known === undefined) return false;
  // A weak comparison, as RFC 9110 asks for: proxies that compress an answer weaken its tag.
  const tags = known.split(',').map((each) => each.trim().replace(/^W\//, ''));
  if (!tags.includes(etag) && known.trim() !== '*') return false;
  void reply.code(304);
  return true;
}
