import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import {
  startToolHost,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolHost,
  type ToolHostOptions,
} from '../../src/index.ts';

export const TOOLS_DIR = fileURLToPath(new URL('../fixtures/tools', import.meta.url));
export const BAD_TOOLS_DIR = fileURLToPath(new URL('../fixtures/bad', import.meta.url));

export interface TestToolHost extends ToolHost {
  /** All output of the host, its threads and the tools. */
  readonly log: string[];
  /** The host's own part of it. */
  readonly ownLog: string[];
  /** Runs the calls side by side; resolves with their outcomes, in the given order. */
  runCalls(
    calls: readonly ToolCallRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<ToolCallOutcome[]>;
}

/** Starts a tool host with the fixture tools, closed when the test ends. */
export async function startTestHost(options: Partial<ToolHostOptions> = {}): Promise<TestToolHost> {
  const log: string[] = [];
  const ownLog: string[] = [];
  const host = await startToolHost({
    toolsDirs: [TOOLS_DIR],
    threads: 2,
    onLog: (line, source) => {
      log.push(line);
      if (source === 'host') ownLog.push(line);
    },
    ...options,
  });
  onTestFinished(() => host.close());
  return {
    ...host,
    log,
    ownLog,
    runCalls: (calls, runOptions) => Promise.all(calls.map((call) => host.runCall(call, runOptions))),
  };
}

let calls = 0;

/** Builds a call of the tool under a unique key. */
export function callOf(
  tool: string,
  args: unknown = {},
  more: Partial<ToolCallRequest> = {},
): ToolCallRequest & { readonly idempotency_key: string } {
  calls += 1;
  return {
    call_id: `call-${calls}`,
    tool_name: tool,
    arguments: args,
    agent_id: 'agent-1',
    run_id: 'run-1',
    tool_use_id: `toolu_${calls}`,
    idempotency_key: `key-${calls}`,
    ...more,
  };
}

/** Creates a directory for one test. */
export async function testDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'nightshift-tool-host-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Reads the lines of a file; none if it does not exist yet. */
export async function linesOf(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '');
}

/** Polls until the condition holds. Fails before the test's own timeout, which would not name the condition. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + 90_000;
  while (!(await condition())) {
    if (performance.now() > deadlineMs)
      throw new Error(`still false after a minute and a half: ${String(condition)}`);
    await wait(10);
  }
}

/** Whether a process with this id is running (a zombie is not). */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return status === undefined || !/\) [ZX] /.test(status);
}
