/**
 * What a thread tells the host while it may be unable to send a message: a shared array of integers it writes as it goes.
 * When the thread is stuck or gone, this says which calls were entered, which were done, and which one was running.
 * The host writes there which calls are not to be entered, for a thread that may not be listening yet.
 *
 * Cells: thread id + 1 | running synchronously + 1 | loading tool + 1 | culprit + 1 | slots (call + 1 each) | one state per call.
 */
export interface Progress {
  readonly cells: Int32Array;
  readonly slots: number;
}

/** `waiting`: not entered. `entered`: its function was called. `done`: it has an outcome, perhaps not yet sent. */
export type CallProgress = 'waiting' | 'entered' | 'done';

const CELL_THREAD = 0;
const CELL_RUNNING = 1;
const CELL_LOADING = 2;
const CELL_CULPRIT = 3;
const CELL_SLOTS = 4;

/** In the cell of the culprit: none of the task's calls. */
const STRANGER = -1;

const STATE_ENTERED = 1;
const STATE_DONE = 2;
const STATE_GIVEN_UP = 3;

/** A fresh record for a task of `calls` calls of which at most `slots` run at a time. */
export function createProgress(calls: number, slots: number): Progress {
  const cells = new Int32Array(new SharedArrayBuffer(4 * (CELL_SLOTS + slots + calls)));
  return { cells, slots };
}

/** The thread has begun the task. */
export function markThread(progress: Progress, threadId: number): void {
  Atomics.store(progress.cells, CELL_THREAD, threadId + 1);
}

/** The thread that began the task, or undefined while none has. */
export function readThread(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_THREAD);
  return cell === 0 ? undefined : cell - 1;
}

/** The thread imports the module of tool number `tool`; undefined when it has finished importing. */
export function markLoading(progress: Progress, tool: number | undefined): void {
  Atomics.store(progress.cells, CELL_LOADING, tool === undefined ? 0 : tool + 1);
}

export function readLoading(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_LOADING);
  return cell === 0 ? undefined : cell - 1;
}

/** Call `call` is entered and takes `slot`. Everything up to {@link markReturned} runs without yielding. */
export function markEntered(progress: Progress, call: number, slot: number): void {
  Atomics.store(progress.cells, CELL_SLOTS + slot, call + 1);
  Atomics.store(progress.cells, CELL_SLOTS + progress.slots + call, STATE_ENTERED);
  Atomics.store(progress.cells, CELL_RUNNING, call + 1);
}

/** The entered function has returned, with a value or with a promise. */
export function markReturned(progress: Progress): void {
  Atomics.store(progress.cells, CELL_RUNNING, 0);
}

/** Call `call` has its outcome and gives `slot` back, if it was ever entered and took one. */
export function markDone(progress: Progress, call: number, slot: number | undefined): void {
  Atomics.store(progress.cells, CELL_SLOTS + progress.slots + call, STATE_DONE);
  if (slot !== undefined) Atomics.store(progress.cells, CELL_SLOTS + slot, 0);
}

/** The call in `slot` has been interrupted without an outcome, and its time is up. */
export function markGivenBack(progress: Progress, slot: number): void {
  Atomics.store(progress.cells, CELL_SLOTS + slot, 0);
}

/** Call `call` is ending the thread: it exits, or threw outside of its promise. */
export function markCulprit(progress: Progress, call: number): void {
  Atomics.compareExchange(progress.cells, CELL_CULPRIT, 0, call + 1);
}

/** Something that no call of the task is to blame for is ending the thread: what an ended call has left behind. */
export function markStranger(progress: Progress): void {
  Atomics.compareExchange(progress.cells, CELL_CULPRIT, 0, STRANGER);
}

/** Whether {@link markStranger} came first. */
export function isStranger(progress: Progress): boolean {
  return Atomics.load(progress.cells, CELL_CULPRIT) === STRANGER;
}

/** The call that ends the thread by its own doing, or else the one that was running without yielding. */
export function readCulprit(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_CULPRIT) || Atomics.load(progress.cells, CELL_RUNNING);
  return cell === 0 || cell === STRANGER ? undefined : cell - 1;
}

export function readRunning(progress: Progress): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_RUNNING);
  return cell === 0 ? undefined : cell - 1;
}

/** The call in `slot`, or undefined when it is free. */
export function readSlot(progress: Progress, slot: number): number | undefined {
  const cell = Atomics.load(progress.cells, CELL_SLOTS + slot);
  return cell === 0 ? undefined : cell - 1;
}

export function readCall(progress: Progress, call: number): CallProgress {
  const cell = Atomics.load(progress.cells, CELL_SLOTS + progress.slots + call);
  return cell === STATE_DONE ? 'done' : cell === STATE_ENTERED ? 'entered' : 'waiting';
}

/** Call `call` is not to be entered any more; nothing changes when it was. */
export function markGivenUp(progress: Progress, call: number): void {
  Atomics.compareExchange(progress.cells, CELL_SLOTS + progress.slots + call, 0, STATE_GIVEN_UP);
}

export function isGivenUp(progress: Progress, call: number): boolean {
  return Atomics.load(progress.cells, CELL_SLOTS + progress.slots + call) === STATE_GIVEN_UP;
}
