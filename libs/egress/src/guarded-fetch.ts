import type { Egress } from './egress.ts';
import type { EgressOptions } from './request.ts';

/** Statuses whose answers have no body. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/**
 * Makes a `fetch` that goes through the client, for libraries that take one. Bodies of answers are streamed.
 * With `redirect: 'manual'` or `'error'` a redirect is the answer.
 * Throws: the reason of the request's signal if it fired, else `EgressError`.
 */
export function createGuardedFetch(egress: Egress, options: Omit<EgressOptions, 'signal'>): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const { method, url, signal } = request;
    const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
    const redirects_max = request.redirect === 'follow' ? options.redirects_max : 0;
    try {
      const answer = await egress.request(
        { method, url, headers: Object.fromEntries(request.headers), body },
        { ...options, redirects_max, signal },
      );
      const { status, headers } = answer;
      if (!WITHOUT_BODY.has(status))
        return new Response(ReadableStream.from(answer.body), { status, headers });
      answer.close();
      return new Response(null, { status, headers });
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  };
}
