import { openPythonJail, type PythonJail } from '@nightshift/python-jail';
import { afterAll, describe, expect, test } from 'vitest';
import { createLazyHost, type LazyHost } from '../../src/tools/lazy-host.ts';
import { createPythonRunner } from '../../src/tools/python/python-runner.ts';
import type { ToolRequest, ToolRunner } from '../../src/tools/runner.ts';

const opened = await openPythonJail().catch((error: unknown) => String(error));
const hasJail = typeof opened !== 'string';
if (!hasJail) process.stderr.write(`Calls of uploaded Python are not tested: ${opened}\n`);
afterAll(async () => {
  if (hasJail) await opened.close();
});

function request(network: readonly string[]): ToolRequest {
  return {
    ...{
      call_id: 'call',
      kind: 'python',
      tool_name: 'f',
      arguments: { a: 1 },
      agent_id: 'agent-1',
      run_id: 'run-1',
    },
    ...{ tool_use_id: 'use', idempotency_key: 'key', side_effects: 'once', timeout_ms: 60_000 },
    ...{ result_char_limit: 1_000, source: { code_sha256: 'sha', network, secrets: ['KEY'] } },
  };
}

function runnerOf(jail: LazyHost<PythonJail>, source: string | null): ToolRunner {
  return createPythonRunner(jail, {
    fetch: async ({ url }) => ({ status: 200, headers: {}, body: url }),
    readCode: async () => source,
    readSecrets: async (agentId, names) =>
      Object.fromEntries(names.map((name) => [name, `${name} of ${agentId}`])),
  });
}

const signal = new AbortController().signal;
const CUT_NOTE = '... [NOTE: function output was truncated since it exceeded the character limit (1000)]';

describe.skipIf(!hasJail)('a call of uploaded Python', () => {
  const jail = createLazyHost(async () => opened as PythonJail);

  test('has its secrets and its agent, and fetches from its hosts alone', async () => {
    const source = `
import os
def f(a):
    try:
        fetch("https://b.example/")
    except ConnectionError as error:
        return [a, dict(sorted(os.environ.items())), fetch("https://a.example/x").text, str(error)]
`;
    const reply = await runnerOf(jail, source).run(request(['a.example']), { signal });
    expect(reply).toMatchObject({ call_id: 'call', status: 'succeeded' });
    expect(JSON.parse(reply.result)).toEqual([
      1,
      { KEY: 'KEY of agent-1', LETTA_AGENT_ID: 'agent-1' },
      'https://a.example/x',
      "the host b.example is not in the tool's network list",
    ]);
    expect(await runnerOf(jail, source).run(request([]), { signal })).toMatchObject({
      status: 'failed',
      result: expect.stringContaining("name 'fetch' is not defined") as string,
    });
  });

  test('has a result that is cut with a note', async () => {
    const reply = await runnerOf(jail, `def f(a):\n    return "x" * 2000`).run(request([]), { signal });
    expect(reply).toMatchObject({ status: 'succeeded', truncated: true });
    expect(reply.result).toBe(`${'x'.repeat(1_000)}${CUT_NOTE}`);
  });

  test('whose code is gone fails', async () => {
    expect(await runnerOf(jail, null).run(request([]), { signal })).toMatchObject({
      status: 'failed',
      started: false,
    });
  });
});

test('a worker without a jail fails the call with the reason', async () => {
  const jail = createLazyHost<PythonJail>(async () => {
    throw new Error('bwrap is not installed');
  });
  expect(await runnerOf(jail, 'def f(a): pass').run(request([]), { signal })).toMatchObject({
    status: 'failed',
    started: false,
    result: 'This worker cannot run Python: bwrap is not installed.',
  });
});
