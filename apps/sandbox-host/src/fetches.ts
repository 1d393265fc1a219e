import {
  FETCH_CHARS_MAX,
  FETCHES_MAX,
  type SandboxFetch,
  type SandboxFetchAnswer,
  type SandboxFetchRequest,
  type SandboxRequest,
} from './contract.ts';

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

/** The requests that a call has made so far. */
export interface FetchBudget {
  requests: number;
  chars: number;
}

/** The answer of a request as the sandbox reads it. */
export type FetchAnswer = SandboxFetchAnswer | { readonly error: string };

/** Reads a request of sandboxed code and books it. Throws: an error whose message is shown to the code. */
export function readFetch(text: string, hosts: readonly string[], budget: FetchBudget): SandboxFetchRequest {
  budget.requests += 1;
  budget.chars += text.length;
  if (budget.requests > FETCHES_MAX) throw new Error(`a call may make ${FETCHES_MAX} requests`);
  if (budget.chars > FETCH_CHARS_MAX) throw new Error('the requests of the call are too large');
  const { url, method, headers, body } = JSON.parse(text) as Record<string, unknown>;
  if (typeof url !== 'string' || !URL.canParse(url)) throw new Error('the URL is not absolute');
  const { protocol, host, hostname, username, password } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new Error(`the protocol ${protocol} is not allowed`);
  if (username !== '' || password !== '') throw new Error('the URL has credentials');
  if (!hosts.includes(host) && !hosts.includes(hostname))
    throw new Error(`the host ${host} is not in the tool's network list`);
  if (typeof method !== 'string' || !METHODS.has(method.toUpperCase()))
    throw new Error(`the method is not among ${[...METHODS].join(', ')}`);
  if (body !== undefined && typeof body !== 'string') throw new Error('body must be a string');
  const request = { url: new URL(url).href, method: method.toUpperCase(), headers: readHeaders(headers) };
  return body === undefined ? request : { ...request, body };
}

function readHeaders(headers: unknown): Record<string, string> {
  if (typeof headers !== 'object' || headers === null) throw new Error('headers must be an object');
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[\0\r\n]/.test(value))
      throw new Error(`the header ${JSON.stringify(name)} is not valid`);
  }
  return headers as Record<string, string>;
}

/** Carries a request out. Never rejects. */
export async function answerFetch(
  text: string,
  request: Pick<SandboxRequest, 'call_id' | 'network'>,
  budget: FetchBudget,
  fetch: SandboxFetch,
  signal: AbortSignal,
): Promise<FetchAnswer> {
  try {
    const { call_id, network } = request;
    const { status, headers, body } = await fetch(readFetch(text, network, budget), {
      call_id,
      hosts: network,
      signal,
    });
    const lowerCase = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    return { status, headers: Object.fromEntries(lowerCase) as Record<string, string>, body };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
