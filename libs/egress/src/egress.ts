import { isReservedHeader } from '@nightshift/agent-core/tools/http-tool';
import { lookup } from 'node:dns';
import {
  request as httpRequest,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect as netConnect } from 'node:net';
import { createGuardedAgents, shareLookups, type EgressDialer, type GuardedAgents } from './agents.ts';
import { EgressError } from './egress-error.ts';
import { followRedirect, isRedirect } from './redirect.ts';
import type { EgressAnswer, EgressOptions, EgressRequest } from './request.ts';
import { checkedUrl, refused } from './url-guard.ts';

export interface Egress {
  /**
   * Sends a request and resolves with the answer once its headers are there, whatever its status.
   * Throws: {@link EgressError}.
   */
  request(request: EgressRequest, options: EgressOptions): Promise<EgressAnswer>;
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

const SYSTEM_DIALER: EgressDialer = {
  resolve: (hostname, done) => {
    lookup(hostname, { all: true }, (error, addresses) => done(error, error === null ? addresses : []));
  },
  connect: netConnect,
};

/** Makes a client. `dialer`: lookup and connections; default: those of the system. */
export function createEgress({ resolve, connect }: EgressDialer = SYSTEM_DIALER): Egress {
  const dialer: EgressDialer = { resolve: shareLookups(resolve), connect };
  const pools = new Map<string, GuardedAgents>();

  /** Returns the agents of a policy: a connection to a private address must not serve a request that may not have it. */
  function agentsFor({ allow_private, keep_alive = false }: EgressOptions): GuardedAgents {
    const key = `${allow_private} ${keep_alive}`;
    const agents = pools.get(key) ?? createGuardedAgents(dialer, allow_private, keep_alive);
    pools.set(key, agents);
    return agents;
  }

  return {
    async request(first, options) {
      const deadline = AbortSignal.timeout(options.timeout_ms);
      const limits: Limits = {
        answer_bytes_max: options.answer_bytes_max,
        signal: options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]),
        isAborted: () => options.signal?.aborted === true,
      };
      checkRequest(first);
      let request = first;
      for (let redirects = 0; ; redirects++) {
        const answer = await step(request, options, limits).catch((error: unknown) => {
          throw redirects === 0 ? error : redirectedError(error as EgressError);
        });
        const { status, headers } = answer;
        if (options.redirects_max === 0 || !isRedirect(status, headers['location'])) return answer;
        answer.close();
        if (redirects === options.redirects_max)
          throw new EgressError('refused', `the answer is redirected more than ${redirects} times`, true);
        request = followRedirect(request, answer.url, headers['location'], status);
      }
    },
  };

  async function step(request: EgressRequest, options: EgressOptions, limits: Limits): Promise<EgressAnswer> {
    const url = checkedUrl(request.url, options);
    return exchange(request, url, agentsFor(options), limits);
  }
}

function redirectedError({ code, message }: EgressError): EgressError {
  return new EgressError(code, `after a redirect: ${message}`, true);
}

/** Checks the parts of a request that Node sends without a check. */
function checkRequest({ method, headers }: EgressRequest): void {
  if (!METHODS.has(method)) throw refused(`the method ${method} is not sent`);
  const name = Object.keys(headers).find(isReservedHeader);
  if (name !== undefined) throw refused(`the header ${name} is set by the client; leave it out`);
}

interface Limits {
  readonly answer_bytes_max: number;
  /** Fires at the deadline, or with the caller's signal. */
  readonly signal: AbortSignal;
  /** Whether the caller's signal has fired. */
  readonly isAborted: () => boolean;
}

function exchange(
  request: EgressRequest,
  url: URL,
  agents: GuardedAgents,
  limits: Limits,
): Promise<EgressAnswer> {
  let sent = false;

  function explain(error: Error & { readonly code?: unknown }): EgressError {
    if (error instanceof EgressError) return error;
    if (limits.isAborted()) return new EgressError('aborted', 'the caller gave up', sent);
    if (limits.signal.aborted) return new EgressError('timed_out', 'no answer in time', sent);
    // The error of several failed addresses has a code only.
    return new EgressError('unreachable', error.message || String(error.code), sent);
  }

  return new Promise((resolve, reject) => {
    const outgoing = open(request, url, agents, limits.signal);
    const answer = (response: IncomingMessage, bytesMax: number): void => {
      resolve({
        status: response.statusCode ?? 0,
        url: url.href,
        headers: flatten(response.headers),
        body: boundedBody(response, bytesMax, explain),
        close: () => void response.destroy(),
      });
    };
    outgoing.on('socket', (socket) => {
      if (!socket.connecting) sent = !socket.destroyed;
      else socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (sent = true));
    });
    outgoing.on('response', (response) => answer(response, limits.answer_bytes_max));
    // Without this listener Node closes the connection of an upgrade without any event.
    outgoing.on('upgrade', (response, socket) => {
      socket.destroy();
      answer(response, 0);
    });
    outgoing.on('error', (error) => reject(explain(error)));
    // 'close' always fires last, so that every exchange ends; after an answer or another error it has no effect.
    outgoing.on('close', () => reject(explain(new Error('the connection was closed without an answer'))));
    outgoing.end(request.body);
  });
}

/**
 * Opens a request without sending it.
 * Throws: {@link EgressError} for headers that cannot be sent. Node's messages name the header and not its value.
 */
function open(request: EgressRequest, url: URL, agents: GuardedAgents, signal: AbortSignal): ClientRequest {
  const { method, body } = request;
  const headers: Record<string, string | number> = { 'user-agent': 'Nightshift' };
  for (const [name, value] of Object.entries(request.headers)) headers[name.toLowerCase()] = value;
  if (body !== undefined) headers['content-length'] = Buffer.byteLength(body);
  // Bodies are not decompressed: a small one could grow beyond any limit.
  headers['accept-encoding'] = 'identity';
  try {
    return url.protocol === 'https:'
      ? httpsRequest(url, { method, headers, agent: agents.https, signal })
      : httpRequest(url, { method, headers, agent: agents.http, signal });
  } catch (error) {
    throw refused((error as Error).message);
  }
}

function flatten(headers: IncomingHttpHeaders): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return flat;
}

async function* boundedBody(
  response: IncomingMessage,
  bytesMax: number,
  explain: (error: Error) => EgressError,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > bytesMax)
        throw new EgressError('too_large', `the answer has more than ${bytesMax} bytes`, true);
      yield piece;
    }
  } catch (error) {
    throw explain(error as Error);
  }
}
