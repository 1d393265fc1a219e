import { test } from 'vitest';
import { callOf, startTestHost } from './support/tool-hosts.ts';

test('throughput, printed and not judged: a busy machine proves nothing', { timeout: 60_000 }, async () => {
  const host = await startTestHost();
  const report = async (label: string, tool: string, args: unknown, count: number): Promise<void> => {
    const calls = Array.from({ length: count }, () => callOf(tool, args));
    const startedMs = performance.now();
    await host.runCalls(calls);
    const perCallUs = ((performance.now() - startedMs) * 1_000) / count;
    console.log(`${label}: ${count} calls, ${perCallUs.toFixed(1)} µs per call`);
  };
  const text = 'x'.repeat(200);
  await report('first calls', 'echo', { text }, 1_000);
  await report('fast calls', 'echo', { text }, 50_000);
  await report('fast calls', 'echo', { text }, 50_000);
  await report('busy for 1 ms', 'burns', { ms: 1 }, 1_000);
  await report('waiting 20 ms', 'slow', { ms: 20 }, 1_000);
});
