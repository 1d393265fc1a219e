import { randomUUID } from 'node:crypto';
import type { FetchResult, NetHost } from '@nightshift/net-host';
import type { SandboxFetch } from '@nightshift/sandbox-host';
import type { LazyHost } from '../lazy-host.ts';

/** Timeout of one request; the call that makes it may end earlier. Unit: milliseconds. */
const FETCH_TIMEOUT_MS = 60_000;
/** The net host never cuts the answer of a request: an answer that is too large fails. Unit: characters. */
const ANSWER_CHARS_MAX = 1_000_000;

/** Carries out the requests of uploaded code in the net host, under the guard of outgoing requests. */
export function createSandboxFetch(
  host: LazyHost<Pick<NetHost, 'runCall' | 'close'>>,
  allow_private: boolean,
): SandboxFetch {
  return async ({ url, method, headers, body }, { call_id, hosts, signal }) => {
    const net = await host.get();
    const reply = await net.runCall(
      {
        kind: 'fetch',
        call_id: `${call_id} ${randomUUID()}`,
        // The code decides about repeats.
        side_effects: 'once',
        idempotency_key: call_id,
        timeout_ms: FETCH_TIMEOUT_MS,
        result_char_limit: ANSWER_CHARS_MAX,
        ...{ method, url, headers, body: body ?? null, allowed_hosts: hosts, allow_private },
      },
      { signal },
    );
    if (reply.status !== 'succeeded') throw new Error(reply.result);
    const { status, headers: answered, body: text } = JSON.parse(reply.result) as FetchResult;
    return { status, headers: answered, body: text };
  };
}
