import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import {
  startNetHost,
  type FetchCall,
  type HttpCall,
  type McpListCall,
  type McpServer,
  type ModuleCall,
  type NetHost,
  type NetHostOptions,
} from '../../src/index.ts';

export interface TestNetHost extends NetHost {
  readonly log: string[];
}

/** Starts a net host, closed when the test ends. */
export async function startTestHost(options: NetHostOptions = {}): Promise<TestNetHost> {
  const log: string[] = [];
  const host = await startNetHost({ onLog: (line) => log.push(line), ...options });
  onTestFinished(() => host.close());
  return { ...host, log };
}

/** Starts a server on loopback that records its requests, closed when the test ends. */
export async function serve(
  answer: RequestListener,
): Promise<{ readonly url: string; readonly seen: IncomingMessage[] }> {
  const seen: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    answer(request, response);
  });
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

let calls = 0;

function base() {
  calls += 1;
  return {
    call_id: `call-${calls}`,
    idempotency_key: `key-${calls}`,
    side_effects: 'none' as const,
    // Generous, for a busy machine.
    timeout_ms: 100_000,
    result_char_limit: 10_000,
  };
}

export function httpCall(
  http: Partial<HttpCall['http']> & { url: string },
  more: Partial<HttpCall> = {},
): HttpCall {
  const tool = { method: 'GET', ...http };
  return { kind: 'http', ...base(), http: tool, arguments: {}, secrets: {}, allow_private: true, ...more };
}

export function fetchCall(url: string, more: Partial<FetchCall> = {}): FetchCall {
  const request = { method: 'GET', url, headers: {}, body: null };
  const { host = '' } = URL.parse(url) ?? {};
  return { kind: 'fetch', ...base(), ...request, allowed_hosts: [host], allow_private: true, ...more };
}

/** Parts of a call of an MCP server, whose tools are listed before each call. */
export function mcpBase(server: McpServer): Omit<McpListCall, 'kind'> {
  return { ...base(), server, secrets: {}, allow_private: true, list_age_ms_max: 0 };
}

export function moduleCall(
  name: string,
  args: ModuleCall['arguments'] = {},
  more: Partial<ModuleCall> = {},
): ModuleCall {
  const file = fileURLToPath(new URL(`../fixtures/${name}.ts`, import.meta.url));
  const ids = { agent_id: 'agent-1', run_id: 'run-1', tool_use_id: 'toolu_1' };
  return { kind: 'module', ...base(), file, arguments: args, ...ids, ...more };
}

/** Polls until the condition holds. Fails before the test's own timeout, which would not name the condition. */
export async function until(condition: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + 90_000;
  while (!condition()) {
    if (performance.now() > deadlineMs)
      throw new Error(`still false after a minute and a half: ${String(condition)}`);
    await wait(10);
  }
}

/** Whether a process with this id is running. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
