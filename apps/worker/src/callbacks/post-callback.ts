import type { CallbackOutcome } from '@nightshift/agent-core';
import { lookup, type LookupAddress } from 'node:dns';
import { request as httpRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Webhook } from 'standardwebhooks';
import { isPrivateAddress, literalAddress } from './address-guard.ts';

export interface CallbackOptions {
  /** Signing key, as `whsec_<base64>`; undefined: callbacks are unsigned. */
  readonly secret?: string | undefined;
  /** Allows receivers inside private networks. */
  readonly allow_private: boolean;
  /** Timeout of the whole exchange. */
  readonly timeout_ms: number;
}

/** One delivery. All attempts share `id`, so that the receiver can detect duplicates. */
export interface Callback {
  readonly id: string;
  readonly url: string;
  readonly body: string;
  /** Seconds since the epoch, included in the signature. */
  readonly timestamp: number;
}

/**
 * Posts a callback once and returns the outcome; a bad URL, receiver or network never makes it throw.
 *
 * It follows no redirects and reads no response body. Private addresses are refused in the URL, after the name lookup, and
 * again on the open connection.
 */
export async function postCallback(callback: Callback, options: CallbackOptions): Promise<CallbackOutcome> {
  try {
    return await exchange(callback, options);
  } catch (error) {
    // The URL cannot be parsed, or its parts cannot be sent.
    return refused(error instanceof Error ? error.message : 'the URL cannot be called');
  }
}

/** As {@link postCallback}, but throws for an unusable URL. */
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
      // Node's own agents may use a proxy, which resolves the name itself and would bypass `lookup`.
      agent: false,
      ...(options.allow_private ? {} : { lookup: lookupPublic }),
    };
    const send = isHttps ? httpsRequest : httpRequest;
    const request = send(url, settings, (response) => {
      response.destroy();
      resolve({ kind: 'answered', status: response.statusCode ?? 0 });
    });
    // Without this listener Node closes the connection of an upgrade without any event.
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
    // 'close' always fires last, so that every exchange has an outcome; after another outcome it has no effect.
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

/** Resolves a name and refuses it if any of its addresses is private: the connection may use any of them. */
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

/** Builds the Standard Webhooks headers: id, time, and a signature over both and the body. */
export function signatureHeaders(callback: Callback, secret: string | undefined): Record<string, string> {
  const headers = { 'webhook-id': callback.id, 'webhook-timestamp': String(callback.timestamp) };
  if (secret === undefined) return headers;
  // The library's decoder throws on '=' inside a secret, which the configuration accepts.
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const sentAt = new Date(callback.timestamp * 1000);
  const signature = new Webhook(key, { format: 'raw' }).sign(callback.id, sentAt, callback.body);
  return { ...headers, 'webhook-signature': signature };
}
