import type { HeadersOf } from './send.ts';
import { mergeHeaders } from './headers.ts';
import { withOnceKey } from './once.ts';
import type { Transport } from './transport.ts';
import { createClient, createConfig, type Client } from './generated/client/index.ts';

/** What every operation is called with. */
export interface Call {
  readonly client: Client;
  readonly throwOnError: true;
}

interface Answer<Data> {
  readonly data: Data;
  readonly response: Response;
}

/** Returns the body of an answer. */
export async function dataOf<Data>(answer: Promise<Answer<Data>>): Promise<Data> {
  return (await answer).data;
}

/** Yields the items of all pages of a list, and asks for a page when it is needed. */
export async function* itemsOf<Item>(
  page: (cursor: Cursor | undefined) => Promise<Answer<readonly Item[]>>,
): AsyncGenerator<Item, void, undefined> {
  let cursor: Cursor | undefined;
  do {
    const { data, response } = await page(cursor);
    yield* data;
    cursor = nextOf(response);
  } while (cursor !== undefined);
}

/** Place of a page in its list. */
interface Cursor {
  readonly after?: string;
  readonly before?: string;
}

/**
 * Reads the cursor of the next page from the `Link` header; undefined on the last page. Messages in descending order go on by
 * `before`, and keep the bound `after` of the caller.
 */
function nextOf(response: Response): Cursor | undefined {
  const next = /<([^>]*)>;\s*rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  if (next === undefined) return undefined;
  const { searchParams } = new URL(next, 'http://localhost');
  const after = searchParams.get('after');
  const before = searchParams.get('before');
  if (after === null && before === null) return undefined;
  return { ...(after !== null && { after }), ...(before !== null && { before }) };
}

/** Creates the generated client on a transport. */
export function createCall(baseUrl: string, headersOf: HeadersOf, transport: Transport): Call {
  const fetch = async (made: Request): Promise<Response> => {
    const { url, method } = made;
    const body = await made.arrayBuffer();
    const own = withOnceKey(method, mergeHeaders(made.headers));
    return transport({
      make: async (signal) => {
        const headers = mergeHeaders(await headersOf(), own);
        return new Request(url, { method, headers, signal, ...(body.byteLength === 0 ? {} : { body }) });
      },
      signal: made.signal,
    });
  };
  const client = createClient(
    createConfig({ baseUrl, fetch: fetch as typeof globalThis.fetch, throwOnError: true }),
  );
  return { client, throwOnError: true };
}
