import { createHash } from 'node:crypto';
import variant from '@jitl/quickjs-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core';
import type { SandboxCall } from './contract.ts';

/** Pages of 64 KiB: 16 MB at first, 64 MB at most. */
const MEMORY_PAGES = { initial: 256, maximum: 1024 };
const STACK_BYTES = 64 * 1024;
// Typed as CommonJS, whose default export would be nested; the ES module is loaded.
const base = variant as unknown as QuickJSSyncVariant;
const realDateNow = Date.now;

/** A new instance of QuickJS for one call. It is never disposed: its memory goes with it. */
export interface Sandbox {
  readonly runtime: QuickJSRuntime;
  readonly context: QuickJSContext;
  /** A function of guest.mjs. */
  readonly own: (name: string) => QuickJSHandle;
  /** On the clock of `performance`. */
  readonly startedAt: number;
  readonly deadline: number;
}

/** Creates the memory of an instance. */
export function createMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory(MEMORY_PAGES);
}

/** Whether the code has made the memory grow. */
export function hasGrown(memory: WebAssembly.Memory): boolean {
  return memory.buffer.byteLength > MEMORY_PAGES.initial * 64 * 1024;
}

/** Opens an instance with the clock and the random numbers of the call. The whole thread gets this clock. */
export async function openSandbox(
  wasm: WebAssembly.Module,
  guest: string,
  memory: WebAssembly.Memory,
  call: Pick<SandboxCall, 'timeout_ms' | 'now_ms' | 'idempotency_key'>,
): Promise<Sandbox> {
  const startedAt = performance.now();
  const deadline = startedAt + call.timeout_ms;
  const engine = await newQuickJSWASMModuleFromVariant(
    newVariant(base, { wasmModule: wasm, wasmMemory: memory }),
  );
  const runtime = engine.newRuntime({ maxStackSizeBytes: STACK_BYTES });
  runtime.setInterruptHandler(() => performance.now() > deadline);
  // A new context seeds Math.random from the clock.
  const seed = createHash('sha256').update(call.idempotency_key).digest().readUIntBE(0, 6);
  Date.now = () => seed;
  const context = runtime.newContext();
  Date.now = () => Math.floor(call.now_ms + performance.now() - startedAt);
  const prelude = context.unwrapResult(context.evalCode(guest, 'guest.js', { type: 'module' }));
  return { runtime, context, own: (name) => context.getProp(prelude, name), startedAt, deadline };
}

/** Gives the thread its clock back. */
export function resetClock(): void {
  Date.now = realDateNow;
}
