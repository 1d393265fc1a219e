/** A call of a module tool: alone, and in the chunks in which the product makes it. */
import { startToolHost, type ToolCallRequest } from '../../apps/tool-host/src/index.ts';
import { join } from 'node:path';
import { stoppedAtEnd } from '../ending.ts';
import { treeCpuMs } from '../measure/processes.ts';
import { digits } from '../report/table.ts';
import { run } from '../tools/look_up.ts';
import { toolCall } from '../workload.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const CALLS = 50_000;
const CHUNKS = [1, 50, 500, 1_000];
/** Chunks under way at a time, as the product's tool lanes have them. */
const CHUNKS_IN_FLIGHT = 2;

export async function tools(bench: Bench): Promise<ScenarioResult> {
  const host = await startToolHost({ toolsDirs: [join(import.meta.dirname, '../tools')] });
  const closeHost = stoppedAtEnd(() => host.close());
  const rows: string[][] = [];
  const figures: object[] = [];
  const note = (how: string, calls: number, wallMs: number, cpuMs: number): void => {
    rows.push([how, digits((calls / wallMs) * 1000), digits((cpuMs * 1000) / calls)]);
    figures.push({ how, calls, wall_ms: wallMs, cpu_us_per_call: (cpuMs * 1000) / calls });
  };
  try {
    const inline = process.cpuUsage();
    const start = performance.now();
    let length = 0;
    for (let index = 0; index < CALLS; index++)
      length += run(requestOf(index).arguments as Record<string, unknown>).length;
    const spent = process.cpuUsage(inline);
    if (length === 0) throw new Error('The tool answered nothing.');
    note('in this thread, no host', CALLS, performance.now() - start, (spent.user + spent.system) / 1000);
    await callAll(host, 5_000, 500);
    for (const size of CHUNKS) {
      const calls = size === 1 ? CALLS / 10 : CALLS;
      bench.say(`tools: ${calls} calls, ${size} at a time`);
      const cpu = treeCpuMs(process.pid);
      const from = performance.now();
      await callAll(host, calls, size);
      note(`${size} a call of runCalls`, calls, performance.now() - from, treeCpuMs(process.pid) - cpu);
    }
  } finally {
    await closeHost();
  }
  return {
    title: 'A call of a module tool (tool host in a process of its own, Piscina threads)',
    table: { head: ['how', 'calls/s', 'CPU us/call'], rows },
    figures: { tools: figures },
    goals: [],
    notes: [
      `${CHUNKS_IN_FLIGHT} chunks under way at a time. CPU is that of this process, the host and its threads.`,
    ],
  };
}

function requestOf(index: number): ToolCallRequest {
  return {
    call_id: `call-${index}`,
    tool_name: 'look_up',
    arguments: toolCall('module', 1).input,
    agent_id: 'agent-1',
    run_id: 'run-1',
    tool_use_id: `toolu_${index}`,
    idempotency_key: `call-${index}`,
  };
}

async function callAll(
  host: Awaited<ReturnType<typeof startToolHost>>,
  calls: number,
  size: number,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < calls) {
      const from = next;
      next += size;
      const outcomes = await host.runCalls(
        Array.from({ length: Math.min(size, calls - from) }, (_, at) => requestOf(from + at)),
      );
      const bad = outcomes.find((outcome) => outcome.status !== 'succeeded');
      if (bad !== undefined) throw new Error(`A call ${bad.status}: ${bad.result}`);
    }
  };
  await Promise.all(Array.from({ length: CHUNKS_IN_FLIGHT }, lane));
}
