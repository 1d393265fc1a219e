import { capResult } from '@nightshift/agent-core/tools/results';
import { createEgress } from '@nightshift/egress';
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
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
import {
  createFrameReader,
  encodeFrame,
  FROM_HOST_FD,
  TO_HOST_FD,
  type FromHost,
  type ToHost,
} from './protocol.ts';

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
const incoming = new Socket({ fd: TO_HOST_FD, readable: true, writable: false });
const outgoing = new Socket({ fd: FROM_HOST_FD, readable: false, writable: true });
/** Cancels the calls under way. */
const cancels = new Map<number, AbortController>();

/** Writes to the log; synchronous, so that the last line of a dying process is read. */
function log(line: string): void {
  try {
    writeSync(2, `[net-host] ${line}\n`);
  } catch {
    // The reader is gone or slow; a line less does no harm.
  }
}

/** Sends a message; resolves when it is on the pipe, or when the pipe is gone and this process about to end. */
function send(message: FromHost): Promise<void> {
  return new Promise((resolve) => {
    outgoing.write(encodeFrame(message), () => resolve());
  });
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
  await send({ kind: 'starting', id });
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
  await send({ kind: 'reply', id, reply });
}

function onMessage(message: ToHost): void {
  switch (message.kind) {
    case 'call':
      void carryOut(message.id, message.call);
      return;
    case 'cancel':
      cancels.get(message.id)?.abort();
      return;
    case 'ping':
      void send({ kind: 'pong' });
      return;
  }
}

/** Ends the process at once: a plain exit would wait for the thread below. */
function endProcess(): void {
  process.kill(process.pid, 'SIGKILL');
}

const read = createFrameReader(onMessage);
incoming.on('data', (piece: Buffer) => {
  try {
    read(piece);
  } catch (error) {
    log(`unreadable frame: ${describeError(error)}`);
    endProcess();
  }
});
for (const pipe of [incoming, outgoing]) {
  pipe.on('error', endProcess);
  pipe.on('close', endProcess);
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

// A stop signal often goes to the worker's whole group or unit. The worker decides how long calls may go on.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});

void send({ kind: 'ready' });
