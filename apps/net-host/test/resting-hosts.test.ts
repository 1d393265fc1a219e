import { createEgress } from '@nightshift/egress';
import { beforeEach, expect, test } from 'vitest';
import { createBreakers, type BreakerPolicy } from '../src/breaker.ts';
import type { HttpCall } from '../src/contract.ts';
import type { Net } from '../src/exchange.ts';
import { runFetchCall } from '../src/fetch-call.ts';
import { runHttpCall } from '../src/http-call.ts';
import type { Outcome, Progress } from '../src/progress.ts';
import { fetchCall, httpCall, serve } from './support/net-hosts.ts';

const BRIEF: BreakerPolicy = { failures_min: 1, rest_ms: 200, rest_ms_max: 200 };
const LONG: BreakerPolicy = { failures_min: 1, rest_ms: 3_600_000, rest_ms_max: 3_600_000 };

let url: string;
let status: number;
/** Requests that reached the host. */
let asked: number;
let progress: Progress;
beforeEach(async () => {
  status = 503;
  asked = 0;
  progress = { started: false, attempts: 0, answer_bytes: 0 };
  ({ url } = await serve((_, response) => {
    asked += 1;
    response.writeHead(status).end('answer');
  }));
});

/** Returns a network in which the host rests. */
async function resting(policy: BreakerPolicy): Promise<Net> {
  const net: Net = {
    egress: createEgress(),
    breakers: createBreakers(policy),
    nowMs: () => performance.now(),
  };
  const begun: Progress = { started: false, attempts: 0, answer_bytes: 0 };
  await runHttpCall(httpCall({ url }, { side_effects: 'once' }), begun, new AbortController().signal, net);
  expect(asked).toBe(1);
  return net;
}

const run = (net: Net, more: Partial<HttpCall> = {}, signal = new AbortController().signal) =>
  runHttpCall(httpCall({ url }, more), progress, signal, net);

test.each(['none', 'idempotent', 'once'] as const)(
  'a call with effect %s fails at once when its host rests beyond its deadline',
  async (side_effects) => {
    const outcome: Outcome = await run(await resting(LONG), { side_effects });
    expect(outcome.status).toBe('failed');
    expect(outcome.text).toMatch(/does not answer and is not called for 3600 s/);
    expect([progress.attempts, progress.started, asked]).toEqual([0, false, 1]);
  },
);

test('a fetch fails at once when its host rests beyond its deadline', async () => {
  const net = await resting(LONG);
  const outcome = await runFetchCall(fetchCall(url), progress, new AbortController().signal, net);
  expect(outcome).toMatchObject({ status: 'failed', text: expect.stringContaining('3600 s') as string });
  expect([progress.attempts, asked]).toEqual([0, 1]);
});

test.each(['none', 'once'] as const)(
  'a call with effect %s waits for the end of the rest',
  async (side_effects) => {
    const net = await resting(BRIEF);
    status = 200;
    expect(await run(net, { side_effects })).toMatchObject({ status: 'succeeded', text: 'answer' });
    expect([progress.attempts, asked]).toEqual([1, 2]);
  },
);

test('calls that wait together are one try at a time', async () => {
  const net = await resting(BRIEF);
  // Each try of one call fails; the others wait again, and end at their deadline or after their attempts.
  const calls = Array.from({ length: 20 }, () =>
    runHttpCall(
      httpCall({ url }, { timeout_ms: 700, side_effects: 'once' }),
      { started: false, attempts: 0, answer_bytes: 0 },
      new AbortController().signal,
      net,
    ),
  );
  for (const { status: ended } of await Promise.all(calls)) expect(ended).toBe('failed');
  expect(asked).toBeLessThanOrEqual(1 + Math.ceil(700 / BRIEF.rest_ms));
});

test('a call that is given up during the rest ends at once', async () => {
  const net = await resting(LONG);
  const cancel = new AbortController();
  const running = run(net, { timeout_ms: 2 * LONG.rest_ms }, cancel.signal);
  cancel.abort();
  expect(await running).toEqual({ status: 'crashed', text: 'the caller gave up' });
  expect(asked).toBe(1);
});
