import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { QuickJSHandle } from 'quickjs-emscripten-core';
import {
  OUTPUT_CHARS_MAX,
  RESULT_CHAR_LIMIT_DEFAULT,
  type SandboxCall,
  type SandboxOutcome,
  type SandboxStatus,
} from './contract.ts';
import { captureConsole, defineEnv, openFetches, type Fetches } from './guest-api.ts';
import { createMemory, hasGrown, openSandbox, resetClock, type Sandbox } from './sandbox.ts';

/** Runs calls one at a time, each in a new instance of QuickJS. */

/** Set by the main thread. */
export interface ThreadData {
  /** The compiled engine. */
  readonly wasm: WebAssembly.Module;
  /** The text of guest.mjs. */
  readonly guest: string;
  /** The files of the thread as JavaScript, by URL. */
  readonly sources: ReadonlyMap<string, string>;
}

export interface ThreadTask {
  readonly id: number;
  readonly call: SandboxCall;
  /** JSON text. */
  readonly arguments: string;
  /** Carries `fetch` requests and their answers, if the call has hosts. */
  readonly port: MessagePort | undefined;
}

/** Sent to the main thread: the thread is ready for tasks, or has taken one up. */
export type ThreadMessage = { readonly isReady: true } | { readonly started: number };

/** A value of the code, or what it threw; undefined if the deadline passed. */
type Settled =
  | { readonly isThrown: false; readonly value: QuickJSHandle }
  | { readonly isThrown: true; readonly value: QuickJSHandle }
  | undefined;

const { wasm, guest } = workerData as ThreadData;

function tell(message: ThreadMessage): void {
  parentPort?.postMessage(message);
}

/** Runs a call. An error of the engine or of this file ends the thread: it may have left anything behind. */
export async function runCode(task: ThreadTask): Promise<SandboxOutcome> {
  tell({ started: task.id });
  const memory = createMemory();
  try {
    return await runInSandbox(task, await openSandbox(wasm, guest, memory, task.call));
  } catch (error) {
    process.stderr.write(`the engine failed: ${String(error).slice(0, 500)}\n`);
    return process.exit(1);
  } finally {
    resetClock();
    task.port?.close();
    // Left to the collector, two large calls in a row would need twice the memory.
    if (hasGrown(memory)) setImmediate(() => globalThis.gc?.());
  }
}

async function runInSandbox(task: ThreadTask, sandbox: Sandbox): Promise<SandboxOutcome> {
  const { context, own, startedAt, deadline } = sandbox;
  const { timeout_ms, result_char_limit = RESULT_CHAR_LIMIT_DEFAULT } = task.call;
  const output = captureConsole(sandbox);
  if (task.call.env !== undefined) defineEnv(sandbox, task.call.env);
  const fetches = openFetches(sandbox, task.port);

  function end(status: SandboxStatus, result: string, truncated = false): SandboxOutcome {
    return { status, result, duration_ms: performance.now() - startedAt, truncated, ...output };
  }

  /** Returns a text of the code by a function of guest.mjs that cuts it; undefined if that fails. */
  function read(name: 'quote' | 'describe', value: QuickJSHandle, limit: number): string | undefined {
    const text = context.callFunction(own(name), context.undefined, value, context.newNumber(limit));
    return text.error === undefined ? (JSON.parse(context.getString(text.value)) as string) : undefined;
  }

  const settled = await callTool(task, sandbox, fetches);
  if (settled?.isThrown === false) {
    const length = context.getNumber(context.getProp(settled.value, 'length'));
    const result = read('quote', settled.value, result_char_limit);
    if (result !== undefined) return end('succeeded', result, length > result_char_limit);
  }
  const error = settled?.isThrown === true ? read('describe', settled.value, OUTPUT_CHARS_MAX) : undefined;
  if (settled === undefined || performance.now() > deadline)
    return end('timed_out', `the tool did not return within its timeout of ${timeout_ms} ms`);
  return end('failed', error ?? 'the code ran out of memory');
}

/** Evaluates the module and calls its function. */
async function callTool(task: ThreadTask, sandbox: Sandbox, fetches: Fetches): Promise<Settled> {
  const { context, own } = sandbox;
  const { code, tool_name, parameters } = task.call;
  const exported = context.evalCode(code, 'tool.js', { type: 'module' });
  if (exported.error !== undefined) return { isThrown: true, value: exported.error };
  const loaded = await settle(exported.value, sandbox, fetches);
  if (loaded?.isThrown !== false) return loaded;
  const text = (value: string): QuickJSHandle => context.newString(value);
  const answer = context.callFunction(
    own('invoke'),
    context.undefined,
    loaded.value,
    text(tool_name),
    text(JSON.stringify(parameters)),
    text(task.arguments),
  );
  if (answer.error !== undefined) return { isThrown: true, value: answer.error };
  return settle(answer.value, sandbox, fetches);
}

/** Runs jobs, and gives answers of `fetch` to the code, until the promise settles. */
async function settle(promise: QuickJSHandle, sandbox: Sandbox, fetches: Fetches): Promise<Settled> {
  const { runtime, context, deadline } = sandbox;
  for (;;) {
    const jobs = runtime.executePendingJobs();
    const state = context.getPromiseState(promise);
    if (state.type === 'fulfilled') return { isThrown: false, value: state.value };
    if (state.type === 'rejected') return { isThrown: true, value: state.error };
    if (performance.now() > deadline) return undefined;
    if (jobs.error !== undefined) return { isThrown: true, value: jobs.error };
    if (!fetches.isWaiting())
      return { isThrown: true, value: context.newError('the promise of the tool never settles') };
    await fetches.next();
  }
}

// The first instance costs as much as many calls.
const FIRST_CALL = { timeout_ms: 10_000, now_ms: 0, idempotency_key: '' };
void openSandbox(wasm, guest, createMemory(), FIRST_CALL).then(() => {
  resetClock();
  tell({ isReady: true });
});
