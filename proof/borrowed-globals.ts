/**
 * Clocks, timers, dice and the disk, lent to simulated processes. Code that runs in the context of a process gets the
 * world's; everything else in this Node process keeps the real ones.
 */
import crypto from 'node:crypto';
import fs from 'node:fs';
import fsPromises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { currentActor, type Actor } from './world.ts';

let installed = false;
const files = new Map<string, Buffer>();
const bytesOfBlob = new WeakMap<Blob, Buffer>();

/** The bytes of a body that a flow made: read at once, without waiting for a stream. */
export function blobBytes(blob: Blob): Buffer {
  const bytes = bytesOfBlob.get(blob);
  if (bytes === undefined) throw new Error('This body was not made by a simulated process.');
  return bytes;
}

/** Replaces the globals, once per Node process. */
export function lendGlobals(): void {
  if (installed) return;
  installed = true;
  lendTimers();
  lendDice();
  lendDisk();
  syncBuiltinESMExports();
}

/** What `setTimeout` returns to a simulated process. */
interface LentTimer {
  readonly timer: ReturnType<Actor['world']['setTimer']>;
  readonly actor: Actor;
  ref(): LentTimer;
  unref(): LentTimer;
  hasRef(): boolean;
}

function lendTimers(): void {
  const real = { setTimeout, setInterval, clearTimeout, clearInterval };
  const lend = (actor: Actor, run: () => void, delayMs: number, everyMs: number | null): LentTimer => {
    const timer = actor.world.setTimer(actor, run, delayMs, everyMs);
    const lent: LentTimer = { timer, actor, ref: () => lent, unref: () => lent, hasRef: () => false };
    return lent;
  };
  const isLent = (handle: unknown): handle is LentTimer =>
    typeof handle === 'object' && handle !== null && 'timer' in handle && 'actor' in handle;
  const clear =
    (fallback: (handle: never) => void) =>
    (handle: unknown): void => {
      if (isLent(handle)) handle.actor.world.clearTimer(handle.timer);
      else fallback(handle as never);
    };
  const replacement = {
    setTimeout(run: (...args: unknown[]) => void, delayMs = 0, ...args: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor === undefined) return real.setTimeout(run, delayMs, ...args);
      return lend(actor, () => run(...args), delayMs, null);
    },
    setInterval(run: (...args: unknown[]) => void, delayMs = 0, ...args: unknown[]): unknown {
      const actor = currentActor.getStore();
      if (actor === undefined) return real.setInterval(run, delayMs, ...args);
      return lend(actor, () => run(...args), delayMs, delayMs);
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

function lendDice(): void {
  const realRandom = Math.random;
  Math.random = () => currentActor.getStore()?.random.next() ?? realRandom();
  const { randomBytes, randomUUIDv7 } = crypto;
  const lent = {
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
  Object.assign(crypto, lent);
}

/** Files of simulated processes are kept in memory: a disk would answer in its own time. */
function lendDisk(): void {
  const real = {
    open: fsPromises.open,
    mkdir: fsPromises.mkdir,
    rm: fsPromises.rm,
    openAsBlob: fs.openAsBlob,
  };
  const lent = {
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
  Object.assign(fsPromises, lent);
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

/** Forgets the files of processes that are gone. */
export function clearFiles(): void {
  files.clear();
}
