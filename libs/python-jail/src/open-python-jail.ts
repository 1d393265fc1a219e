import { existsSync } from 'node:fs';
import { callTool, type PythonCall, type PythonReply } from './call.ts';
import { inspectSource, type SourceInspection } from './inspect.ts';
import { findInterpreter } from './interpreter.ts';
import { createJail } from './jail.ts';
import { createSeccompFilter } from './seccomp.ts';
import { testJail } from './self-test.ts';

/** A jail that has passed its self-test. */
export interface PythonJail {
  /** Version of the interpreter, such as `3.11.2`. */
  readonly version: string;
  /** The layers between uploaded code and the machine. All hold, or there is no jail. */
  readonly layers: readonly string[];
  /** Reads a tool from its source, which is not run. Throws: Error if the jail does not start. */
  inspect(source: string, name: string | null): Promise<SourceInspection>;
  /** Runs a call. Never rejects. */
  runCall(call: PythonCall, options?: { readonly signal?: AbortSignal }): Promise<PythonReply>;
  /** Ends all calls. */
  close(): Promise<void>;
}

const LAYERS = ['process', 'bubblewrap', 'seccomp', 'limits'];

/**
 * Finds an interpreter and tests the jail from inside.
 * Default of `interpreters`: the machine's python3.
 * Throws: Error that says which layer does not hold and what to do.
 */
export async function openPythonJail(interpreters?: readonly string[]): Promise<PythonJail> {
  if (process.platform !== 'linux') throw new Error(`the jail needs Linux, and this is ${process.platform}`);
  if (!['/usr/bin/bwrap', '/bin/bwrap'].some((path) => existsSync(path)))
    throw new Error('bwrap is not installed; install the package bubblewrap');
  const interpreter = await findInterpreter(interpreters);
  const jail = createJail(interpreter, createSeccompFilter());
  await testJail(jail);
  const closed = new AbortController();
  const running = new Set<Promise<unknown>>();
  async function track<Value>(work: Promise<Value>): Promise<Value> {
    running.add(work);
    try {
      return await work;
    } finally {
      running.delete(work);
    }
  }
  return {
    version: interpreter.version,
    layers: LAYERS,
    inspect: (source, name) => track(inspectSource(jail, source, name)),
    runCall: (call, { signal } = {}) =>
      track(
        callTool(jail, call, AbortSignal.any([closed.signal, ...(signal === undefined ? [] : [signal])])),
      ),
    async close() {
      closed.abort();
      await Promise.allSettled(running);
    },
  };
}
