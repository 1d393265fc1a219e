import type { Database } from '@nightshift/db';
import { buildServer } from '../../../api/src/index.ts';

const API_KEY = 'ns_test_key_of_the_suite';

/** An answer of the API. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  // Parsed JSON; the expectation is the check.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any;
  readonly text: string;
}

/** The API beside the workers of a house. */
export interface HouseApi {
  call(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    url: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<ApiAnswer>;
  close(): Promise<void>;
}

/** Opens the API over a database, called without a network. Default of `ring`: nothing hears the bell. */
export async function openHouseApi(
  db: Database,
  ring: () => Promise<void> = () => Promise.resolve(),
): Promise<HouseApi> {
  const server = buildServer({
    db,
    bell: { ring },
    apiKey: API_KEY,
    model: 'simulator',
  });
  await server.ready();
  return {
    call: async (method, url, body, headers = {}) => {
      const answer = await server.inject({
        method,
        url,
        headers: { authorization: `Bearer ${API_KEY}`, ...headers },
        ...(body === undefined ? {} : { payload: body }),
      });
      const { statusCode: status, headers: given, body: text } = answer;
      return { status, headers: given, body: JSON.parse(text) as unknown, text };
    },
    close: () => server.close(),
  };
}
