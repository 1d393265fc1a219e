import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { latencyOf, parseLatency } from '../src/latency.ts';
import { all, request, requests, roundTrip, running } from './support/running.ts';
import type { ResultLine } from './support/running.ts';

const HOUR_MS = 3_600_000;
const fates = (lines: readonly ResultLine[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { result } of lines) counts[result.type] = (counts[result.type] ?? 0) + 1;
  return counts;
};

describe('the life of a batch', () => {
  test('a batch that never ends expires after 24 hours, without a charge', async () => {
    const { simulator, client } = await running();
    simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } });
    const { id } = await client.messages.batches.create({ requests: requests(5) });
    await simulator.control.advance(24 * HOUR_MS - 1);
    expect((await client.messages.batches.retrieve(id)).processing_status).toBe('in_progress');
    await simulator.control.advance(1);
    const batch = await client.messages.batches.retrieve(id);
    expect(batch).toMatchObject({ processing_status: 'ended', request_counts: { expired: 5, succeeded: 0 } });
    expect(batch.ended_at).toBe(batch.expires_at);
    expect(fates(await all(await client.messages.batches.results(id)))).toEqual({ expired: 5 });
    expect(simulator.control.ledger().totals.requests).toBe(0);
  });

  test('a slow batch keeps its finished requests when it expires', async () => {
    const { simulator, client } = await running({ settings: { latency: `fixed:${48 * HOUR_MS}` } });
    const { id } = await client.messages.batches.create({ requests: requests(100) });
    await simulator.control.advance(24 * HOUR_MS);
    const { request_counts: counts } = await client.messages.batches.retrieve(id);
    expect(counts.succeeded + counts.expired).toBe(100);
    expect(counts.succeeded).toBeGreaterThan(30);
    expect(counts.expired).toBeGreaterThan(30);
    expect(simulator.control.ledger().totals.requests).toBe(counts.succeeded);
  });

  test('the clock runs due ends in order, each at its own time', async () => {
    const { simulator, client } = await running({ settings: { latency: 'uniform:1000-50000' } });
    const ids: string[] = [];
    for (let i = 0; i < 5; i++)
      ids.push((await client.messages.batches.create({ requests: requests(1) })).id);
    await simulator.control.advance(60_000);
    const ended = simulator.control.batches();
    for (const batch of ended) expect(batch.ended_at_ms).toBe(batch.ends_at_ms);
    expect(new Set(ended.map(({ ends_at_ms }) => ends_at_ms)).size).toBe(5);
  });

  test('a scaled clock reaches the end by itself', async () => {
    const { simulator, client } = await running({
      clock: 'scaled:100000',
      settings: { latency: 'fixed:3600000' },
    });
    const { id } = await client.messages.batches.create({ requests: requests(1) });
    await expect
      .poll(async () => (await client.messages.batches.retrieve(id)).processing_status)
      .toBe('ended');
    expect(simulator.control.now()).toBeGreaterThan(Date.now() + HOUR_MS / 2);
  });

  test('a cancel may stop all requests, or be ignored', async () => {
    const { simulator, client } = await running({ settings: { cancel: { in_work: 0 } } });
    const early = await client.messages.batches.create({ requests: requests(5) });
    await client.messages.batches.cancel(early.id);
    await simulator.control.command(early.id, 'end');
    expect((await client.messages.batches.retrieve(early.id)).request_counts.canceled).toBe(5);
    simulator.control.configure({ cancel: { behaviour: 'ignored', after_end: 'unchanged' } });
    const ignored = await client.messages.batches.create({ requests: requests(5) });
    expect((await client.messages.batches.cancel(ignored.id)).processing_status).toBe('canceling');
    await simulator.control.advance(1000);
    expect((await client.messages.batches.cancel(ignored.id)).processing_status).toBe('ended');
    expect((await client.messages.batches.retrieve(ignored.id)).request_counts.succeeded).toBe(5);
  });

  test('configured fractions of the requests fail or expire', async () => {
    const started = await running({
      settings: { outcomes: { errored: 0.3, errored_type: 'overloaded_error', expired: 0.3 } },
    });
    const lines = await roundTrip(started, requests(400));
    const counts = fates(lines);
    expect(counts['errored']).toBeGreaterThan(80);
    expect(counts['expired']).toBeGreaterThan(50);
    expect(counts['succeeded']).toBeGreaterThan(100);
    const errored = lines.find(({ result }) => result.type === 'errored');
    expect(errored?.result).toMatchObject({ error: { type: 'error', error: { type: 'overloaded_error' } } });
  });

  test('invalid params error only their own request', async () => {
    const started = await running();
    const lines = await roundTrip(started, [
      request('good'),
      request('warm', 'hi', { temperature: 1 }),
      request('odd', 'hi', { model: 'claude-9' }),
    ]);
    const byId = Object.fromEntries(lines.map((line) => [line.custom_id, line.result]));
    expect(byId['good']?.type).toBe('succeeded');
    expect(byId['warm']).toMatchObject({
      type: 'errored',
      error: { error: { type: 'invalid_request_error' }, request_id: /^req_/ },
    });
    expect(byId['odd']).toMatchObject({ type: 'errored', error: { error: { type: 'not_found_error' } } });
  });

  test('a failing script errors only its own request', async () => {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => said.mockRestore());
    const started = await running();
    const lines = await roundTrip(started, [
      request('too-much', '⟦sim:hugeText?bytes=10000000000⟧'),
      request('fine'),
    ]);
    const results = new Map(lines.map(({ custom_id, result }) => [custom_id, result]));
    expect(results.get('too-much')).toMatchObject({
      type: 'errored',
      error: { error: { type: 'api_error' } },
    });
    expect(results.get('fine')?.type).toBe('succeeded');
    expect(started.simulator.control.ledger().totals.requests).toBe(1);
    expect(said).toHaveBeenCalledExactlyOnceWith(
      expect.stringContaining('request too-much failed: RangeError'),
    );
  });

  test('rules decide the fate of single requests', async () => {
    const started = await running();
    const { control } = started.simulator;
    control.addRule({
      op: 'request',
      match: { custom_id: '^r-1$' },
      outcome: { type: 'errored', error_type: 'api_error' },
    });
    control.addRule({ op: 'request', match: { contains: 'hello from r-2' }, outcome: { type: 'expire' } });
    control.addRule({
      op: 'request',
      match: { custom_id: '^r-3$' },
      outcome: { type: 'script', script: 'fixed', args: { text: 'yes' } },
    });
    control.addRule({ op: 'request', match: { custom_id: '^r-4$' }, outcome: { type: 'cancel' } });
    const lines = await roundTrip(started, requests(6));
    expect(fates(lines)).toEqual({ succeeded: 3, errored: 1, expired: 1, canceled: 1 });
    expect(JSON.stringify(lines.find(({ custom_id }) => custom_id === 'r-3'))).toContain('"yes"');
  });

  test('a request errs a number of times and then succeeds, under any custom id', async () => {
    const started = await running();
    started.simulator.control.addRule({
      op: 'request',
      match: { contains: 'stubborn' },
      outcome: { type: 'errorTimesThenSucceed', times: 2 },
    });
    const types: string[] = [];
    for (let i = 0; i < 3; i++)
      types.push((await roundTrip(started, [request(`try-${i}`, 'stubborn')]))[0]?.result.type ?? '');
    expect(types).toEqual(['errored', 'errored', 'succeeded']);
  });

  test('a reset deletes all state, also the settings, and restarts the ids', async () => {
    const { simulator, client } = await running();
    const first = await client.messages.batches.create({ requests: requests(3) });
    simulator.control.configure({ cache_miss: 0.1 });
    simulator.control.addRule({ op: 'any', action: { type: 'status', code: 500 } });
    await simulator.control.reset();
    expect(simulator.control.settings().cache_miss).toBe(0.3);
    expect((await client.messages.batches.list()).data).toEqual([]);
    expect((await client.messages.batches.create({ requests: requests(3) })).id).toBe(first.id);
    await simulator.control.reset('another seed');
    expect((await client.messages.batches.create({ requests: requests(3) })).id).not.toBe(first.id);
  });
});

describe('latencies', () => {
  const drawn = (text: string): number[] =>
    Array.from({ length: 4000 }, (_, i) => latencyOf(parseLatency(text), 's', i)).sort((a, b) => a - b);

  test('follow their distribution', () => {
    expect(new Set(drawn('fixed:400'))).toEqual(new Set([400]));
    const uniform = drawn('uniform:200-2000');
    expect(uniform[0]).toBeGreaterThanOrEqual(200);
    expect(uniform.at(-1)).toBeLessThanOrEqual(2000);
    const lognormal = drawn('lognormal:420000:3600000');
    expect((lognormal[2000] ?? 0) / 420_000).toBeCloseTo(1, 0);
    expect((lognormal[3600] ?? 0) / 3_600_000).toBeCloseTo(1, 0);
  });

  test.each(['', 'fixed', 'uniform:5-1', 'lognormal:9:1', 'fixed:-1'])(
    '%j is refused with the accepted forms',
    (text) => {
      expect(() => parseLatency(text)).toThrow(/fixed:<ms>/);
    },
  );
});
