/**
 * Replaces clocks, timers, randomness and the disk for simulated processes. Code in the context of a process
 * gets the world's; all other code in this Node process keeps the real ones.
 */
import crypto from 'node:crypto';
import fs from 'node:fs';
import fsPromises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { currentActor, type Actor } from './world.ts';

let installed = false;
const files = new Map<string, Buffer>();
const bytesOfBlob = new WeakMap<Blob, Buffer>();

/** Returns the bytes of a body that a flow made, without waiting for a stream. */
export function blobBytes(blob: Blob): Buffer {
  const bytes = bytesOfBlob.get(blob);
  if (bytes === undefined) throw new Error('This body was not made by a simulated process.');
  return bytes;
}

/** Replaces the globals, once per Node process. */
export function replaceGlobals(): void {
  if (installed) return;
  installed = true;
  replaceTimers();
  replaceRandomness();
  replaceDisk();
  syncBuiltinESMExports();
}

/** The return value of `setTimeout` in a simulated process. */
interface VirtualTimer {
  readonly timer: ReturnType<Actor['world']['setTimer']>;
  readonly actor: Actor;
  ref(): VirtualTimer;
  unref(): VirtualTimer;
  hasRef(): boolean;
}

function replaceTimers(): void {
  const real = { setTimeout, setInterval, clearTimeout, clearInterval };
  const start = (actor: Actor, run: () => void, delayMs: number, everyMs: number | null): VirtualTimer => {
    const timer = actor.world.setTimer(actor, run, delayMs, everyMs);
    const virtual: VirtualTimer = {
      timer,
      actor,
      ref: () => virtual,
      unref: () => virtual,
      hasRef: () => false,
    };
    return virtual;
  };
  const isVirtual = (handle: unknown): handle is VirtualTimer =>
    typeof handle === 'object' && handle !== null && 'timer' in handle && 'actor' in handle;
  const clear =
    (fallback: (handle: never) => void) =>
    (handle: unknown): void => {
      if (isVirtual(handle)) handle.actor.world.clearTimer(handle.timer);
      else fallback(handle as never);
    };
  const replacement = {
    setTimeout(run: (...args: unknown[]) => void, delayMs = 0, ...args: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor === undefined) return real.setTimeout(run, delayMs, ...args);
      return start(actor, () => run(...args), delayMs, null);
    },
    setInterval(run: (...args: unknown[]) => void, delayMs = 0, ...args: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor === undefined) return real.setInterval(run, delayMs, ...args);
      return start(actor, () => run(...args), delayMs, delayMs);
    },
    clearTimeout: clear(real.clearTimeout),
    clearInterval: clear(real.clearInterval),
  };
  Object.assign(globalThis, replacement);

  const realNow = performance.now.bind(performance);
  performance.now = () => {
    const actor = currentActor.getStore();
    return actor === undefined ? realNow() : actor.world.now() + actor.clockOffsetMs;
  };
  const realDateNow = Date.now;
  Date.now = () => {
    const actor = currentActor.getStore();
    return actor === undefined ? realDateNow() : actor.world.now() + actor.wallOffsetMs;
  };
}

function replaceRandomness(): void {
  const realRandom = Math.random;
  Math.random = () => currentActor.getStore()?.random.next() ?? realRandom();
  const { randomBytes, randomUUIDv7 } = crypto;
  const replacement = {
    randomBytes(size: number, ...rest: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor !== undefined && rest.length === 0) return actor.random.bytes(size);
      return (randomBytes as (...args: unknown[]) => unknown)(size, ...rest);
    },
    randomUUIDv7(...args: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor === undefined) return (randomUUIDv7 as (...args: unknown[]) => unknown)(...args);
      const time = actor.world.now().toString(16).padStart(12, '0');
      const hex = actor.random.bytes(10).toString('hex');
      const variant = (8 + (Number.parseInt(hex.slice(3, 4), 16) & 3)).toString(16);
      return `${time.slice(0, 8)}-${time.slice(8)}-7${hex.slice(0, 3)}-${variant}${hex.slice(4, 7)}-${hex.slice(7, 19)}`;
    },
  };
  Object.assign(crypto, replacement);
}

/** Keeps the files of simulated processes in memory: a disk would answer in its own time. */
function replaceDisk(): void {
  const real = {
    open: fsPromises.open,
    mkdir: fsPromises.mkdir,
    rm: fsPromises.rm,
    openAsBlob: fs.openAsBlob,
  };
  const replacement = {
    open(path: string, ...rest: unknown[]): unknown {
      if (currentActor.getStore() === undefined)
        return (real.open as (...args: unknown[]) => unknown)(path, ...rest);
      files.set(path, Buffer.alloc(0));
      return Promise.resolve({
        writeFile(page: Buffer): Promise<void> {
          files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), page]));
          return Promise.resolve();
        },
        close: () => Promise.resolve(),
      });
    },
    mkdir(...args: unknown[]): unknown {
      if (currentActor.getStore() === undefined)
        return (real.mkdir as (...args: unknown[]) => unknown)(...args);
      return Promise.resolve(undefined);
    },
    rm(path: string, ...rest: unknown[]): unknown {
      if (currentActor.getStore() === undefined)
        return (real.rm as (...args: unknown[]) => unknown)(path, ...rest);
      files.delete(path);
      return Promise.resolve();
    },
  };
  Object.assign(fsPromises, replacement);
  Object.assign(fs, {
    openAsBlob(path: string, ...rest: unknown[]): unknown {
      if (currentActor.getStore() === undefined)
        return (real.openAsBlob as (...args: unknown[]) => unknown)(path, ...rest);
      const blob = new Blob([]);
      bytesOfBlob.set(blob, files.get(path) ?? Buffer.alloc(0));
      return Promise.resolve(blob);
    },
  });
}

/** Removes the files of earlier simulations. */
export function clearFiles(): void {
  files.clear();
}
