import { expect, test } from 'vitest';
import { callOf, startTestHost } from './support/tool-hosts.ts';

test('thousands of concurrent calls all succeed; their rate is only printed', async () => {
  const host = await startTestHost();
  const report = async (label: string, tool: string, args: unknown, count: number, answer: string) => {
    const calls = Array.from({ length: count }, () => callOf(tool, args));
    const startedMs = performance.now();
    const outcomes = await host.runCalls(calls);
    const perCallUs = ((performance.now() - startedMs) * 1_000) / count;
    console.log(`${label}: ${count} calls, ${perCallUs.toFixed(1)} µs per call`);
    expect(outcomes.map(({ call_id }) => call_id)).toEqual(calls.map(({ call_id }) => call_id));
    expect(new Set(outcomes.map(({ status, result }) => `${status}: ${result}`))).toEqual(
      new Set([`succeeded: ${answer}`]),
    );
  };
  const text = 'x'.repeat(200);
  await report('first calls', 'echo', { text }, 1_000, text);
  await report('fast calls', 'echo', { text }, 10_000, text);
  await report('busy for 1 ms', 'burns', { ms: 1 }, 500, 'burnt');
  // More than its threads hold at a time, so that some wait their turn.
  await report('waiting 20 ms', 'slow', { ms: 20 }, 200, 'waited');
});
