import { capResult } from '@nightshift/agent-core/tools/results';
import { createEgress } from '@nightshift/egress';
import { connectToWorker, endProcess, writeLog } from '@nightshift/host-process/worker-link';
import { Worker } from 'node:worker_threads';
import { createBreakers, HOST_BREAKER_POLICY } from './breaker.ts';
import type { NetCall, Reply } from './contract.ts';
import type { Net } from './exchange.ts';
import { runFetchCall } from './fetch-call.ts';
import { runHttpCall } from './http-call.ts';
import { runMcpCall, runMcpListCall } from './mcp-call.ts';
import { createMcpConnections } from './mcp-connections.ts';
import { runModuleCall } from './module-call.ts';
import { describeError, failed, type Outcome, type Progress } from './progress.ts';
import { FRAME_BYTES_MAX, type FromNetHost, type ToNetHost } from './protocol.ts';

/**
 * The net host: runs calls that wait, all on this event loop. It ends with the process that started it.
 * It imports files of the core, not the whole: that costs 0.6 s of processor time at each start.
 */

const net: Net = {
  egress: createEgress(),
  breakers: createBreakers(HOST_BREAKER_POLICY),
  nowMs: () => performance.now(),
};
const mcpConnections = createMcpConnections(net);
/** Cancels the calls under way. */
const cancels = new Map<number, AbortController>();

const link = connectToWorker<ToNetHost, FromNetHost>(FRAME_BYTES_MAX, onMessage);

function log(line: string): void {
  writeLog(`[net-host] ${line}`);
}

function run(call: NetCall, progress: Progress, signal: AbortSignal): Promise<Outcome> {
  switch (call.kind) {
    case 'http':
      return runHttpCall(call, progress, signal, net);
    case 'fetch':
      return runFetchCall(call, progress, signal, net);
    case 'mcp':
      return runMcpCall(call, progress, signal, net, mcpConnections);
    case 'mcp_list':
      return runMcpListCall(call, progress, signal, net, mcpConnections);
    case 'module':
      return runModuleCall(call, progress, signal);
  }
}

async function carryOut(id: number, call: NetCall): Promise<void> {
  const cancel = new AbortController();
  cancels.set(id, cancel);
  await new Promise<void>((resolve) => link.send({ kind: 'starting', ids: [id] }, resolve));
  const begunMs = performance.now();
  const progress: Progress = { started: false, attempts: 0, answer_bytes: 0 };
  const { status, text, offer_changed } = await run(call, progress, cancel.signal).catch((error: unknown) =>
    failed(describeError(error)),
  );
  cancels.delete(id);
  const isWhole = call.kind === 'fetch' || call.kind === 'mcp_list';
  const result = isWhole ? text : capResult(text, call.result_char_limit);
  const reply: Reply = {
    call_id: call.call_id,
    status,
    result,
    truncated: result !== text,
    duration_ms: Math.round(performance.now() - begunMs),
    ...progress,
    ...(offer_changed === undefined ? {} : { offer_changed }),
  };
  link.send({ kind: 'ended', id, reply });
}

function onMessage(message: ToNetHost): void {
  if (message.kind === 'call') void carryOut(message.id, message.call);
  else if (message.kind === 'cancel') cancels.get(message.id)?.abort();
}

// The lifeline closes when the worker is gone. A thread watches it, because a module may block this one.
const lifeline = `require('node:fs').readSync(0, Buffer.alloc(1)); process.kill(process.pid, 'SIGKILL');`;
new Worker(lifeline, { eval: true }).unref();
process.on('exit', (code) => {
  log(`exits with code ${code}`);
  endProcess();
});

// An error that a module leaves behind must not end the calls of others.
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (error: unknown) => log(`error outside of any call: ${describeError(error)}`));

link.send({ kind: 'ready' });
