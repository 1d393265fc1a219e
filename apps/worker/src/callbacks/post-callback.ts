import type { CallbackOutcome } from '@nightshift/agent-core';
import { createEgress, EgressError } from '@nightshift/egress';
import { Webhook } from 'standardwebhooks';

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

const egress = createEgress();

/**
 * Posts a callback once and returns the outcome; a bad URL, receiver or network never makes it throw.
 *
 * It follows no redirects and reads no response body.
 */
export async function postCallback(callback: Callback, options: CallbackOptions): Promise<CallbackOutcome> {
  const { secret, allow_private, timeout_ms } = options;
  const headers = { ...signatureHeaders(callback, secret), 'content-type': 'application/json' };
  try {
    const answer = await egress.request(
      { method: 'POST', url: callback.url, headers, body: callback.body },
      { allow_private, timeout_ms, redirects_max: 0, answer_bytes_max: 0 },
    );
    answer.close();
    return { kind: 'answered', status: answer.status };
  } catch (error) {
    if (!(error instanceof EgressError)) throw error;
    const { code, message } = error;
    const hint = code === 'private_address' ? '; CALLBACK_ALLOW_PRIVATE=1 allows such receivers' : '';
    return {
      kind: 'unreachable',
      reason: `${message}${hint}`,
      permanent: code === 'private_address' || code === 'refused',
    };
  }
}

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
