import type { CallbackOutcome } from '@nightshift/agent-core';
import { lookup, type LookupAddress } from 'node:dns';
import { request as httpRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Webhook } from 'standardwebhooks';
import { isPrivateAddress, literalAddress } from './address-guard.ts';

/** How callbacks are sent. */
export interface CallbackOptions {
  /** Key of the signature, as `whsec_<base64>`; unsigned when it is undefined. */
  readonly secret?: string | undefined;
  /** True where receivers inside the operator's own network may be called. */
  readonly allow_private: boolean;
  /** Milliseconds for the whole exchange. */
  readonly timeout_ms: number;
}

/** One delivery: `id` stays the same for every try, so that the receiver can tell repeats. */
export interface Callback {
  readonly id: string;
  readonly url: string;
  readonly body: string;
  /** Seconds since the epoch, part of the signature. */
  readonly timestamp: number;
}

/**
 * Posts a callback once and says what came back; never throws for anything a URL, receiver or network does. Redirects are
 * not followed and the answer's body is not read. Addresses inside a network are refused when they are written in the
 * URL, when the name resolves to them, and when the connection turns out to lead there.
 */
export async function postCallback(callback: Callback, options: CallbackOptions): Promise<CallbackOutcome> {
  try {
    return await exchange(callback, options);
  } catch (error) {
    // A URL that cannot be read, or one whose parts cannot be sent.
    return refused(error instanceof Error ? error.message : 'the URL cannot be called');
  }
}

/** As {@link postCallback}, but throws where the URL is none that a request can be made of. */
function exchange(callback: Callback, options: CallbackOptions): Promise<CallbackOutcome> {
  const url = new URL(callback.url);
  const isHttps = url.protocol === 'https:';
  if (!isHttps && url.protocol !== 'http:')
    return Promise.resolve(refused(`the scheme ${url.protocol} is not served`));
  const literal = literalAddress(url);
  if (!options.allow_private && literal !== null && isPrivateAddress(literal))
    return Promise.resolve(refused(PRIVATE));

  return new Promise((resolve) => {
    const settings: RequestOptions = {
      method: 'POST',
      headers: {
        ...signatureHeaders(callback, options.secret),
        'content-type': 'application/json',
        'user-agent': 'Nightshift',
      },
      signal: AbortSignal.timeout(options.timeout_ms),
      // Node's own agents may go through a proxy, which looks the name up by itself: `lookup` would not be asked.
      agent: false,
      ...(options.allow_private ? {} : { lookup: lookupPublic }),
    };
    const send = isHttps ? httpsRequest : httpRequest;
    const request = send(url, settings, (response) => {
      response.destroy();
      resolve({ kind: 'answered', status: response.statusCode ?? 0 });
    });
    // An answer of its own kind: without this, Node closes the connection and says nothing.
    request.on('upgrade', (response, socket) => {
      socket.destroy();
      resolve({ kind: 'answered', status: response.statusCode ?? 101 });
    });
    request.on('socket', (socket) => {
      socket.once('connect', () => {
        if (options.allow_private || !isPrivateAddress(socket.remoteAddress ?? '::')) return;
        request.destroy(new Error(PRIVATE));
      });
    });
    request.on('error', (error) => {
      const reason =
        error.name === 'TimeoutError' || error.name === 'AbortError' ? 'no answer in time' : error.message;
      resolve({ kind: 'unreachable', reason, permanent: error.message === PRIVATE });
    });
    // Comes last, whatever came before it: no exchange is without an outcome.
    request.on('close', () => {
      resolve({
        kind: 'unreachable',
        reason: 'the connection was closed without an answer',
        permanent: false,
      });
    });
    request.end(callback.body);
  });
}

const PRIVATE = 'the address is inside a private network; CALLBACK_ALLOW_PRIVATE=1 allows such receivers';

function refused(reason: string): CallbackOutcome {
  return { kind: 'unreachable', reason, permanent: true };
}

/** Resolves a name and refuses it if any of its addresses is private: the one that is picked may be any of them. */
const lookupPublic: NonNullable<RequestOptions['lookup']> = (hostname, options, done) => {
  lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[] | undefined) => {
    const first = addresses?.[0];
    if (error !== null) done(error, '', 4);
    else if (
      addresses === undefined ||
      first === undefined ||
      addresses.some(({ address }) => isPrivateAddress(address))
    )
      done(new Error(PRIVATE), '', 4);
    else if (options.all === true) done(null, addresses);
    else done(null, first.address, first.family);
  });
};

/** Headers of the Standard Webhooks specification: id, time, and a signature over both and the body. */
export function signatureHeaders(callback: Callback, secret: string | undefined): Record<string, string> {
  const headers = { 'webhook-id': callback.id, 'webhook-timestamp': String(callback.timestamp) };
  if (secret === undefined) return headers;
  // The library's decoder throws on '=' inside of a secret, which the configuration accepts.
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const sentAt = new Date(callback.timestamp * 1000);
  const signature = new Webhook(key, { format: 'raw' }).sign(callback.id, sentAt, callback.body);
  return { ...headers, 'webhook-signature': signature };
}
