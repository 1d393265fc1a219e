/**
 * Progress that a thread writes to shared memory, readable even if the thread is stuck or gone.
 *
 * It shows which calls were entered, which were done, and which was running. The host writes back the calls not to be
 * entered, even before the thread listens.
 *
 * Cells: thread id + 1 | running synchronously + 1 | loading tool + 1 | culprit + 1 | slots (call + 1 each) | one state per
 * call.
 */
export interface Progress {
  readonly cells: Int32Array;
  readonly slots: number;
}

/** `waiting`: not entered. `entered`: its function was called. `done`: it has an outcome, which may not be sent yet. */
export type CallProgress = 'waiting' | 'entered' | 'done';

const CELL_THREAD = 0;
const CELL_RUNNING = 1;
const CELL_LOADING = 2;
const CELL_CULPRIT = 3;
const CELL_SLOTS = 4;

/** Value of the culprit cell: none of the task's calls. */
const LEFTOVER = -1;

const STATE_ENTERED = 1;
const STATE_DONE = 2;
const STATE_GIVEN_UP = 3;

/** Creates the progress of a task of `calls` calls, with at most `slots` at a time. */
export function createProgress(calls: number, slots: number): Progress {
  const cells = new Int32Array(new SharedArrayBuffer(4 * (CELL_SLOTS + slots + calls)));
  return { cells, slots };
}

/** Records that the thread has begun the task. */
export function markThread(progress: Progress, threadId: number): void {
  Atomics.store(progress.cells, CELL_THREAD, threadId + 1);
}

/** Returns the thread that began the task, or undefined if none has. */
export function readThread(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_THREAD);
  return cell === 0 ? undefined : cell - 1;
}

/** Records that the thread imports the module of tool number `tool`; undefined: imports are done. */
export function markLoading(progress: Progress, tool: number | undefined): void {
  Atomics.store(progress.cells, CELL_LOADING, tool === undefined ? 0 : tool + 1);
}

export function readLoading(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_LOADING);
  return cell === 0 ? undefined : cell - 1;
}

/** Records that call `call` is entered in `slot`. Until {@link markReturned} the thread does not yield. */
export function markEntered(progress: Progress, call: number, slot: number): void {
  Atomics.store(progress.cells, CELL_SLOTS + slot, call + 1);
  Atomics.store(progress.cells, CELL_SLOTS + progress.slots + call, STATE_ENTERED);
  Atomics.store(progress.cells, CELL_RUNNING, call + 1);
}

/** Records that the entered function has returned a value or a promise. */
export function markReturned(progress: Progress): void {
  Atomics.store(progress.cells, CELL_RUNNING, 0);
}

/** Records that call `call` has its outcome, and frees `slot` if it took one. */
export function markDone(progress: Progress, call: number, slot: number | undefined): void {
  Atomics.store(progress.cells, CELL_SLOTS + progress.slots + call, STATE_DONE);
  if (slot !== undefined) Atomics.store(progress.cells, CELL_SLOTS + slot, 0);
}

/** Records that the call in `slot` timed out without an outcome. */
export function markGivenBack(progress: Progress, slot: number): void {
  Atomics.store(progress.cells, CELL_SLOTS + slot, 0);
}

/** Records that call `call` is ending the thread: it exits, or threw outside its promise. */
export function markCulprit(progress: Progress, call: number): void {
  Atomics.compareExchange(progress.cells, CELL_CULPRIT, 0, call + 1);
}

/** Records that code left by an ended call is ending the thread: no call of the task is the cause. */
export function markLeftover(progress: Progress): void {
  Atomics.compareExchange(progress.cells, CELL_CULPRIT, 0, LEFTOVER);
}

/** Whether {@link markLeftover} came first. */
export function isLeftover(progress: Progress): boolean {
  return Atomics.load(progress.cells, CELL_CULPRIT) === LEFTOVER;
}

/** Returns the call that ends the thread, or else the call that was running without yielding. */
export function readCulprit(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_CULPRIT) || Atomics.load(progress.cells, CELL_RUNNING);
  return cell === 0 || cell === LEFTOVER ? undefined : cell - 1;
}

export function readRunning(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_RUNNING);
  return cell === 0 ? undefined : cell - 1;
}

/** Returns the call in `slot`, or undefined if it is free. */
export function readSlot(progress: Progress, slot: number): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_SLOTS + slot);
  return cell === 0 ? undefined : cell - 1;
}

export function readCall(progress: Progress, call: number): CallProgress {
  const cell = Atomics.load(progress.cells, CELL_SLOTS + progress.slots + call);
  return cell === STATE_DONE ? 'done' : cell === STATE_ENTERED ? 'entered' : 'waiting';
}

/** Records that call `call` must not be entered; no effect if it was. */
export function markGivenUp(progress: Progress, call: number): void {
  Atomics.compareExchange(progress.cells, CELL_SLOTS + progress.slots + call, 0, STATE_GIVEN_UP);
}

export function isGivenUp(progress: Progress, call: number): boolean {
  return Atomics.load(progress.cells, CELL_SLOTS + progress.slots + call) === STATE_GIVEN_UP;
}
