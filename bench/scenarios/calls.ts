/**
 * Measures calls per second of CPU of each kind of tool that a worker runs: through the worker's runners, in the hosts. The CPU
 * is that of this process and of the hosts.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { startNetHost } from '../../apps/net-host/src/index.ts';
import { startSandboxHost } from '../../apps/sandbox-host/src/index.ts';
import { startToolHost } from '../../apps/tool-host/src/index.ts';
import { createHttpRunner } from '../../apps/worker/src/tools/http/http-runner.ts';
import { createMcpRunner } from '../../apps/worker/src/tools/mcp/mcp-runner.ts';
import { createLazyHost } from '../../apps/worker/src/tools/lazy-host.ts';
import { createModuleRunner } from '../../apps/worker/src/tools/module/module-runner.ts';
import { createPlaces } from '../../apps/worker/src/tools/places.ts';
import { createToolRunners, type ToolRequest, type ToolRunners } from '../../apps/worker/src/tools/runner.ts';
import { createSandboxFetch } from '../../apps/worker/src/tools/sandbox/sandbox-fetch.ts';
import { createSandboxRunner } from '../../apps/worker/src/tools/sandbox/sandbox-runner.ts';
import type { ToolKind, ToolSource } from '../../libs/agent-core/src/index.ts';
import type { McpServerRow } from '../../libs/db/src/index.ts';
import { stoppedAtEnd } from '../ending.ts';
import { treeCpuMs, watchTreeCpu } from '../measure/processes.ts';
import { spreadOf, type Spread } from '../measure/statistics.ts';
import { digits } from '../report/table.ts';
import { lookUp, TOOL_RESULT_CHARS, toolCall } from '../workload.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const CALLS_DEFAULT = 10_000;
/** Calls of uploaded code take milliseconds each. */
const SANDBOX_SHARE = 0.1;
const WARM_UP_SHARE = 0.1;
const SANDBOX_THREADS = 2;

const CODE = `
const TOOL_RESULT_CHARS = ${TOOL_RESULT_CHARS};
${lookUp.toString()}
export function look_up(customer, question, depth) { return lookUp({ customer, depth }); }`;

/** A tool to be measured; a further kind is a further entry. */
interface Measured {
  readonly name: string;
  readonly kind: ToolKind;
  readonly tool_name: string;
  readonly source: ToolSource | null;
  /** Share of the calls of other tools. */
  readonly share: number;
  /** Calls under way at a time. */
  readonly underWay: number;
}

function toolsOf({ url, mcp }: Services): readonly Measured[] {
  const http = { method: 'POST', url: `${url}/{{customer}}`, body: { depth: '{{depth}}' } };
  const parameters = ['customer', 'question', 'depth'];
  return [
    { name: 'module', kind: 'module', tool_name: 'look_up', source: null, share: 1, underWay: 256 },
    {
      ...{ name: 'module with concurrency', kind: 'module', tool_name: 'look_up_together' },
      ...{ source: null, share: 1, underWay: 256 },
    },
    {
      ...{ name: 'sandbox', kind: 'sandbox', tool_name: 'look_up', source: { parameters } },
      ...{ share: SANDBOX_SHARE, underWay: SANDBOX_THREADS * 4 },
    },
    { name: 'HTTP', kind: 'http', tool_name: 'look_up', source: { http }, share: 1, underWay: 256 },
    {
      ...{ name: 'MCP', kind: 'mcp', tool_name: 'look_up', share: 1, underWay: 256 },
      source: {
        mcp: { server_id: mcp.url, tool_name: 'look_up', definition_sha256: mcp.definition_sha256 },
      },
    },
  ];
}

interface Figures {
  readonly calls: number;
  readonly calls_per_cpu_s: Spread;
  readonly calls_per_s: Spread;
}

export async function calls(bench: Bench): Promise<ScenarioResult> {
  const { options } = bench;
  const count = options.runs?.[0] ?? CALLS_DEFAULT;
  const services = await startServices();
  const hosts = await startHosts();
  const tree = watchTreeCpu(process.pid);
  const stop = stoppedAtEnd(async () => {
    tree.stop();
    await hosts.close();
    services.stop();
  });
  try {
    const measured = new Map<string, { readonly perCpu: number[]; readonly perSecond: number[] }>();
    const tools = toolsOf(services);
    for (let round = 1; round <= options.reps; round++) {
      for (const tool of tools) {
        bench.say(`calls: round ${round}, ${tool.name}`);
        const times = Math.ceil(count * tool.share);
        await makeCalls(hosts.runners, tool, Math.ceil(times * WARM_UP_SHARE));
        const cpu = (): number => services.pids.reduce((left, pid) => left - treeCpuMs(pid), tree.cpuMs());
        const [cpuBefore, began] = [cpu(), performance.now()];
        await makeCalls(hosts.runners, tool, times);
        const [cpuMs, tookMs] = [cpu() - cpuBefore, performance.now() - began];
        const figures = measured.get(tool.name) ?? { perCpu: [], perSecond: [] };
        figures.perCpu.push((times * 1_000) / cpuMs);
        figures.perSecond.push((times * 1_000) / tookMs);
        measured.set(tool.name, figures);
      }
    }
    return resultOf(count, tools, measured);
  } finally {
    await stop();
  }
}

function resultOf(
  count: number,
  tools: readonly Measured[],
  measured: ReadonlyMap<
    string,
    { readonly perCpu: readonly number[]; readonly perSecond: readonly number[] }
  >,
): ScenarioResult {
  const figures: Record<string, Figures> = {};
  for (const { name, share } of tools) {
    const { perCpu = [], perSecond = [] } = measured.get(name) ?? {};
    figures[name] = {
      calls: Math.ceil(count * share),
      calls_per_cpu_s: spreadOf(perCpu),
      calls_per_s: spreadOf(perSecond),
    };
  }
  const rows = Object.entries(figures).map(([name, { calls: made, calls_per_cpu_s: cpu, calls_per_s }]) => [
    ...[name, String(made), digits(cpu.median), `${digits(cpu.min)}..${digits(cpu.max)}`],
    ...[digits(1_000 / cpu.median), digits(calls_per_s.median)],
  ]);
  return {
    title: 'Calls of tools, by kind, in one run',
    table: { head: ['tool', 'calls', 'calls/CPU s', 'min..max', 'CPU ms/call', 'calls/s'], rows },
    figures,
    goals: [],
    notes: ["CPU of the worker's side and of the hosts, without the services'."],
  };
}

/** Makes calls of a tool, so many at a time. Throws: a call failed. */
async function makeCalls(runners: ToolRunners, tool: Measured, times: number): Promise<void> {
  const { kind, tool_name, source } = tool;
  const { signal } = new AbortController();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < times) {
      const id = `${tool.name}/${next++}/${performance.now()}`;
      const request: ToolRequest = {
        ...{ call_id: id, idempotency_key: id, tool_use_id: 'toolu_1', kind, tool_name, source },
        ...{ agent_id: 'agent-1', run_id: 'run-1', side_effects: 'none' },
        ...{ timeout_ms: 60_000, result_char_limit: 50_000 },
        arguments: toolCall('module', 1).input as ToolRequest['arguments'],
      };
      const { status, result } = await runners.run(request, { signal });
      if (status !== 'succeeded') throw new Error(`A call of '${tool.name}' ${status}: ${result}`);
    }
  };
  await Promise.all(Array.from({ length: tool.underWay }, lane));
}

async function startHosts(): Promise<{ readonly runners: ToolRunners; close(): Promise<void> }> {
  const toolHost = await startToolHost({ toolsDirs: [join(import.meta.dirname, '../tools')] });
  const netHost = createLazyHost(() => startNetHost());
  const sandboxHost = createLazyHost(() =>
    startSandboxHost({ fetch: createSandboxFetch(netHost, true), threads: SANDBOX_THREADS }),
  );
  const readSecrets = () => Promise.resolve({});
  const runners = createToolRunners(
    {
      module: createModuleRunner(toolHost, netHost),
      sandbox: createSandboxRunner(sandboxHost, {
        threads: SANDBOX_THREADS,
        readCode: () => Promise.resolve(CODE),
        readSecrets,
      }),
      http: createHttpRunner(netHost, { allow_private: true, readSecrets }),
      mcp: createMcpRunner(netHost, {
        ...{ allow_private: true, readSecrets, programs: new Map(), onChanged: () => undefined },
        readServer: (url) => Promise.resolve(mcpServerAt(url)),
      }),
    },
    createPlaces(),
  );
  return {
    runners,
    async close() {
      await Promise.all([toolHost.close(), sandboxHost.close(), netHost.close()]);
    },
  };
}

/** Returns an MCP server as it is stored. */
function mcpServerAt(url: string): McpServerRow {
  const now = new Date();
  return {
    ...{ id: url, name: 'bench', url, headers: {}, auth_header: null, revision: '2026-07-28' },
    ...{ created_at: now, updated_at: now, refreshed_at: now },
  };
}

/** What the tools call, each in a process of its own. */
interface Services {
  /** Of HTTP tools. */
  readonly url: string;
  readonly mcp: { readonly url: string; readonly definition_sha256: string };
  readonly pids: readonly number[];
  stop(): void;
}

async function startServices(): Promise<Services> {
  const [http, mcp] = ['look-up-service.ts', 'look-up-mcp.ts'].map((file) =>
    fork(join(import.meta.dirname, '../engines', file)),
  ) as [ChildProcess, ChildProcess];
  const [[port], [offer]] = (await Promise.all([once(http, 'message'), once(mcp, 'message')])) as [
    [number],
    [Services['mcp']],
  ];
  return {
    url: `http://127.0.0.1:${port}`,
    mcp: offer,
    pids: [http.pid ?? 0, mcp.pid ?? 0],
    stop() {
      http.disconnect();
      mcp.disconnect();
    },
  };
}
