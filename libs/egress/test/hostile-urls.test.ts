import { afterAll, beforeAll, expect, test } from 'vitest';
import { createEgress, createGuardedFetch, EgressError } from '../src/index.ts';
import { HOSTILE_URLS, openHostileNet, type HostileNet } from './hostile-urls.ts';

/** A generous timeout, for a busy machine. */
const OPTIONS = { allow_private: false, redirects_max: 3, answer_bytes_max: 1_000, timeout_ms: 60_000 };

let net: HostileNet;
beforeAll(async () => {
  net = await openHostileNet();
});
afterAll(() => net.close());

test('there are at least 100 URLs, all different', () => {
  expect(new Set(HOSTILE_URLS.map(({ url }) => url)).size).toBe(HOSTILE_URLS.length);
  expect(HOSTILE_URLS.length).toBeGreaterThanOrEqual(100);
});

test.each(HOSTILE_URLS)('$name reaches nothing', async (hostile) => {
  const dialer = net.dialerFor(hostile);
  const egress = createEgress(dialer);
  const url = net.urlOf(hostile);
  for (let attempt = 0; attempt < 4; attempt++) {
    const asked = egress.request({ method: 'GET', url, headers: {} }, { ...OPTIONS, keep_alive: true });
    await expect(asked).rejects.toBeInstanceOf(EgressError);
  }
  await expect(createGuardedFetch(egress, OPTIONS)(url)).rejects.toBeInstanceOf(Error);
  expect(net.breaches()).toEqual([]);
});

test('the net sees a client without a guard', async () => {
  const open = await openHostileNet();
  for (const url of ['http://127.0.0.1:CANARY/', 'http://a.example:CANARY/']) {
    const hostile = { name: '', url };
    const answer = await createEgress(open.dialerFor(hostile)).request(
      { method: 'GET', url: open.urlOf(hostile), headers: {} },
      { ...OPTIONS, allow_private: true },
    );
    answer.close();
  }
  expect(open.breaches()).toEqual([
    'dialled 127.0.0.1',
    'a connection to the canary',
    'approved 127.0.0.1',
    'a connection to the canary',
  ]);
  await open.close();
});

test('the public server answers', async () => {
  const hostile = { name: '', url: 'http://public.example:PUBLIC/' };
  const answer = await createEgress(net.dialerFor(hostile)).request(
    { method: 'GET', url: net.urlOf(hostile), headers: {} },
    OPTIONS,
  );
  expect(answer.status).toBe(200);
  answer.close();
});
