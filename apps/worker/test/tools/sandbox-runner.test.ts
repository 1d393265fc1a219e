import { startSandboxHost } from '@nightshift/sandbox-host';
import { expect, onTestFinished, test } from 'vitest';
import { createLazyHost } from '../../src/tools/lazy-host.ts';
import { createSandboxRunner } from '../../src/tools/sandbox/sandbox-runner.ts';

test('a result of uploaded code that is cut has a note, a short one and an error have none', async () => {
  const host = createLazyHost(() =>
    startSandboxHost({ fetch: () => Promise.reject(new Error('There is no network.')), threads: 1 }),
  );
  onTestFinished(() => host.close());
  const runner = createSandboxRunner(host, {
    threads: 1,
    readCode: (sha256) => Promise.resolve(`export function f() { ${sha256} }`),
    readSecrets: () => Promise.resolve({}),
  });
  const resultOf = async (code_sha256: string): Promise<string> => {
    const { result } = await runner.run(
      {
        ...{ call_id: 'call', kind: 'sandbox', tool_name: 'f', arguments: {}, agent_id: 'agent-1' },
        ...{ run_id: 'run-1', tool_use_id: 'use', idempotency_key: 'key', side_effects: 'once' },
        ...{ timeout_ms: 60_000, result_char_limit: 100, source: { code_sha256 } },
      },
      { signal: new AbortController().signal },
    );
    return result;
  };
  expect(await resultOf('return "x".repeat(200)')).toBe(
    `${'x'.repeat(100)}... [NOTE: function output was truncated since it exceeded the character limit (100)]`,
  );
  expect(await resultOf('return "x".repeat(100)')).toBe('x'.repeat(100));
  expect(await resultOf('throw new Error("y".repeat(200))')).not.toContain('NOTE');
});
