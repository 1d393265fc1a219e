import { createHmac, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { webhooks } from '../src/index.ts';

// The published example of Standard Webhooks.
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek';
const SECONDS = 1_614_265_330;
const BODY = '{"test": 2432232314}';
const SIGNATURE = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=';
const NOW = { now: new Date(SECONDS * 1_000) };

const headersOf = (signature: string): Record<string, string> => ({
  'webhook-id': ID,
  'webhook-timestamp': String(SECONDS),
  'webhook-signature': signature,
});

test('the published example is verified, as text and bytes, with headers of the web and of Node', async () => {
  const headers = headersOf(SIGNATURE);
  const event = { test: 2432232314 };
  expect(await webhooks.verify(BODY, headers, SECRET, NOW)).toEqual(event);
  expect(await webhooks.verify(Buffer.from(BODY), new Headers(headers), SECRET.slice(6), NOW)).toEqual(event);
  const upper = { 'Webhook-Id': ID, 'Webhook-Timestamp': String(SECONDS), 'Webhook-Signature': SIGNATURE };
  expect(await webhooks.verify(BODY, upper, SECRET, NOW)).toEqual(event);
});

test('one of several signatures, and one of several secrets, is enough', async () => {
  const other = `whsec_${randomBytes(32).toString('base64')}`;
  const signatures = `v1a,${randomBytes(64).toString('base64')} v1,${randomBytes(32).toString('base64')} v1,%% ${SIGNATURE}`;
  expect(await webhooks.verify(BODY, headersOf(signatures), [other, SECRET], NOW)).toBeDefined();
});

test.each([
  ['wrong_signature', BODY.replace('2', '3'), {}, SECRET, 0],
  ['wrong_signature', BODY, { 'webhook-id': 'msg_other' }, SECRET, 0],
  ['wrong_signature', BODY, { 'webhook-timestamp': String(SECONDS + 1) }, SECRET, 0],
  ['wrong_signature', BODY, { 'webhook-signature': 'v1,' }, SECRET, 0],
  ['wrong_signature', BODY, { 'webhook-signature': SIGNATURE.slice(0, -5) }, SECRET, 0],
  ['wrong_signature', BODY, { 'webhook-signature': SIGNATURE.replace('v1', 'v2') }, SECRET, 0],
  ['wrong_signature', BODY, {}, `whsec_${'A'.repeat(32)}`, 0],
  ['invalid_secret', BODY, {}, 'whsec_§', 0],
  ['invalid_secret', BODY, {}, '', 0],
  ['missing_header', BODY, { 'webhook-signature': undefined }, SECRET, 0],
  ['missing_header', BODY, { 'webhook-timestamp': '' }, SECRET, 0],
  ['invalid_timestamp', BODY, { 'webhook-timestamp': 'now' }, SECRET, 0],
  ['too_old', BODY, {}, SECRET, 301],
  ['too_new', BODY, {}, SECRET, -301],
] as const)('%s: %s %o', async (code, body, changed, secret, seconds) => {
  const now = new Date((SECONDS + seconds) * 1_000);
  const headers = { ...headersOf(SIGNATURE), ...changed };
  await expect(webhooks.verify(body, headers, secret, { now })).rejects.toMatchObject({
    name: 'NightshiftWebhookError',
    code,
  });
});

test.each([-300, 300])('a webhook is taken %i seconds apart', async (seconds) => {
  const now = new Date((SECONDS + seconds) * 1_000);
  expect(await webhooks.verify(BODY, headersOf(SIGNATURE), SECRET, { now })).toBeDefined();
});

test('a genuine body that is not JSON is an error of its own', async () => {
  const key = Buffer.from(SECRET.slice(6), 'base64');
  const signature = createHmac('sha256', key).update(`${ID}.${SECONDS}.no`).digest('base64');
  await expect(webhooks.verify('no', headersOf(`v1,${signature}`), SECRET, NOW)).rejects.toMatchObject({
    code: 'invalid_body',
  });
});
