import { expect, test } from 'vitest';
import { signatureHeaders } from '../../apps/worker/src/callbacks/post-callback.ts';
import { read } from './repository.ts';

type IsGenuine = (headers: Record<string, string>, body: string, secret: string) => boolean;

test("the verification in docs/callbacks.md accepts a worker's signature only", async () => {
  const [, code = ''] = /^```js\n([\s\S]*?)^```$/m.exec(read('docs/callbacks.md')) ?? [];
  const module: unknown = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  const { isGenuine } = module as { readonly isGenuine: IsGenuine };
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const timestamp = Math.floor(Date.now() / 1000);
  const callback = { id: 'job-1', url: 'https://example.com', body: '{"status":"completed"}', timestamp };
  const headers = signatureHeaders(callback, secret);
  expect(isGenuine(headers, callback.body, secret)).toBe(true);
  expect(isGenuine(headers, '{"status":"failed"}', secret)).toBe(false);
  expect(isGenuine(signatureHeaders(callback, undefined), callback.body, secret)).toBe(false);
  const old = signatureHeaders({ ...callback, timestamp: timestamp - 600 }, secret);
  expect(isGenuine(old, callback.body, secret)).toBe(false);
});
