import { NightshiftWebhookError } from './errors.ts';
import type { BatchCounts, BatchState } from './generated/types.gen.ts';

/** The body of a webhook: the end of a batch, or, with a `type`, an event before it. */
export type WebhookEvent = WebhookEnd | WebhookNotice;

/** The end of a batch. */
export interface WebhookEnd {
  readonly type?: undefined;
  readonly job_id: string;
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly completed_at: string;
  readonly state: BatchState;
  readonly counts: Pick<BatchCounts, 'total' | 'completed' | 'failed' | 'cancelled' | 'expired'>;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** An event of a batch that goes on. */
export interface WebhookNotice {
  readonly type: 'batch.requires_action' | 'batch.paused' | 'batch.review_ready';
  readonly created_at: string;
  readonly job_id: string;
  readonly state: BatchState;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Options of `webhooks.verify`. */
export interface VerifyOptions {
  /** Default: now. */
  readonly now?: Date;
}

/** Longest age of a webhook, and the most by which its time may lie ahead. */
const TOLERANCE_SECONDS = 300;

/** Verifies callbacks, as Standard Webhooks says. */
export const webhooks = { verify };

/**
 * Returns the event of a callback that is signed with the secret, or with one of several during a rotation.
 * `body` is the raw body: a parsed one that is serialized again may differ. `headers` are those of a web request or of Node.
 * Throws: {@link NightshiftWebhookError}.
 */
async function verify(
  body: string | Uint8Array,
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  secret: string | readonly string[],
  { now = new Date() }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const id = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const given = headerOf(headers, 'webhook-signature');
  refuseOtherTimes(timestamp, now);
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const signed = joinBytes(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  const signatures = given
    .split(' ')
    .flatMap((each) => (each.startsWith('v1,') ? [fromBase64(each.slice(3))] : []));
  for (const each of typeof secret === 'string' ? [secret] : secret) {
    const key = await importSecret(each);
    for (const signature of signatures) {
      // Compares in constant time.
      if (signature !== null && (await crypto.subtle.verify('HMAC', key, signature, signed)))
        return parse(bytes);
    }
  }
  throw new NightshiftWebhookError(
    'wrong_signature',
    'No signature of the webhook fits. Check that the secret is the CALLBACK_SECRET of the workers, and that the body is the raw one.',
  );
}

function headerOf(headers: Parameters<typeof verify>[1], name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (typeof value === 'string' && value !== '') return value;
  throw new NightshiftWebhookError(
    'missing_header',
    `The webhook has no header ${name}. Workers without a CALLBACK_SECRET send unsigned webhooks.`,
  );
}

function refuseOtherTimes(timestamp: string, now: Date): void {
  const age = now.getTime() / 1_000 - Number(timestamp);
  if (Math.abs(age) <= TOLERANCE_SECONDS) return;
  if (Number.isNaN(age))
    throw new NightshiftWebhookError(
      'invalid_timestamp',
      `The header webhook-timestamp is '${timestamp}', not the seconds since 1970.`,
    );
  const clocks = 'Check the clocks; if they are right, drop the webhook: it may be a copy.';
  if (age > 0)
    throw new NightshiftWebhookError('too_old', `The webhook is ${Math.round(age)} seconds old. ${clocks}`);
  throw new NightshiftWebhookError(
    'too_new',
    `The time of the webhook is ${timestamp}, which lies ahead. ${clocks}`,
  );
}

/** Imports the key. Throws: {@link NightshiftWebhookError} for a secret that is not base64. */
function importSecret(secret: string) {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''));
  if (bytes === null || bytes.length === 0)
    throw new NightshiftWebhookError(
      'invalid_secret',
      'The secret is not base64. Pass the CALLBACK_SECRET of the workers as it is, with or without whsec_.',
    );
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

/** Returns null for a text that is not base64. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

function joinBytes(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(head.length + tail.length);
  joined.set(head);
  joined.set(tail, head.length);
  return joined;
}

function parse(bytes: Uint8Array): WebhookEvent {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent;
  } catch {
    throw new NightshiftWebhookError('invalid_body', 'The webhook is genuine, but its body is not JSON.');
  }
}
