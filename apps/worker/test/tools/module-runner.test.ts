import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startNetHost } from '@nightshift/net-host';
import { startToolHost } from '@nightshift/tool-host';
import { expect, test } from 'vitest';
import { createLazyHost } from '../../src/tools/lazy-host.ts';
import { createModuleRunner } from '../../src/tools/module/module-runner.ts';
import type { ToolRequest } from '../../src/tools/runner.ts';

const WAITING = `
export const description = 'Waits for its neighbours.';
export const parameters = { type: 'object' };
export const sideEffects = 'none';
export const concurrency = 300;
const waiting = [];
export function run({ all }) {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === all) for (const each of waiting) each(process.pid);
  });
}`;

const PLAIN = `
export const description = 'Tells its process.';
export const parameters = { type: 'object' };
export const sideEffects = 'none';
export const run = () => process.pid;`;

function request(tool_name: string, place: number): ToolRequest {
  return {
    ...{ call_id: `${tool_name}/${place}`, idempotency_key: `${tool_name}/${place}` },
    ...{ kind: 'module', tool_name, arguments: { all: 300 }, side_effects: 'none' },
    ...{ agent_id: 'agent-1', run_id: 'run-1', tool_use_id: `toolu_${place}` },
    ...{ timeout_ms: 60_000, result_char_limit: 1_000, source: null },
  };
}

test('a module that exports concurrency has that many calls under way, in the process of waiting calls', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-modules-'));
  await Promise.all([writeFile(join(dir, 'waits.mjs'), WAITING), writeFile(join(dir, 'plain.mjs'), PLAIN)]);
  const toolHost = await startToolHost({ toolsDirs: [dir], threads: 1 });
  const netHost = createLazyHost(() => startNetHost({}));
  try {
    const runner = createModuleRunner(toolHost, netHost);
    expect(runner.poolOf('waits')).toEqual({ name: 'module waits', calls_max: 300, reserve: 0 });
    expect(runner.poolOf('plain')).toMatchObject({ name: 'module' });
    const { signal } = new AbortController();
    const plain = await runner.run(request('plain', 0), { signal });
    expect(plain).toMatchObject({ status: 'succeeded', result: String(toolHost.pid()) });
    const replies = await Promise.all(
      Array.from({ length: 300 }, (_, place) => runner.run(request('waits', place), { signal })),
    );
    const pid = String((await netHost.get()).pid());
    expect(new Set(replies.map(({ status, result }) => `${status} ${result}`))).toEqual(
      new Set([`succeeded ${pid}`]),
    );
  } finally {
    await Promise.all([toolHost.close(), netHost.close()]);
    await rm(dir, { recursive: true });
  }
});
