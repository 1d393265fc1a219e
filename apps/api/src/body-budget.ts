import type { ServerResponse } from 'node:http';
import { finished, Transform, type Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { passOverRest } from './pass-over-rest.ts';

/** Methods whose bodies Fastify does not read. */
const UNREAD = new Set(['GET', 'HEAD']);

/** What is taken of a budget by one request. */
export interface Share {
  /** Takes so many bytes more. False, and nothing is taken, where others leave no room for them. */
  take(bytes: number): boolean;
  /** What it comes to. */
  bytes(): number;
  /** Gives all of it back, once. */
  giveBack(): void;
}

/** Bytes that are held, in memory that threads share: by all requests, and of these by the thread of large bodies itself. */
export type HeldBytes = BigInt64Array;
const ALL = 0;
const BY_THREAD = 1;

/** Memory for {@link HeldBytes}. */
export function createHeldBytes(): HeldBytes {
  return new BigInt64Array(new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT));
}

/** Gives back all that the thread of large bodies took itself: it has ended. */
export function giveBackOfThread(held: HeldBytes): void {
  Atomics.sub(held, ALL, Atomics.exchange(held, BY_THREAD, 0n));
}

/**
 * A budget of bytes that requests share: together they hold `max` at most, but for one that is alone, which may hold more:
 * what no budget has room for would never go. A share counts `carried` bytes as its own that another thread holds for it.
 */
export function createBudget(max: number, held = createHeldBytes()): (carried?: number) => Share {
  return (carried) => {
    let own = carried ?? 0;
    let taken = 0;
    let isOver = false;
    const count = (bytes: number): void => {
      own += bytes;
      taken += bytes;
      if (carried !== undefined) Atomics.add(held, BY_THREAD, BigInt(bytes));
    };
    return {
      take: (bytes) => {
        if (isOver) return false;
        let before: bigint;
        do {
          before = Atomics.load(held, ALL);
          if (before > own && Number(before) + bytes > max) return false;
        } while (Atomics.compareExchange(held, ALL, before, before + BigInt(bytes)) !== before);
        count(bytes);
        return true;
      },
      bytes: () => own,
      giveBack: () => {
        Atomics.sub(held, ALL, BigInt(taken));
        count(-taken);
        isOver = true;
      },
    };
  };
}

/** What requests have taken for their bodies. */
const shares = new WeakMap<FastifyRequest, Share>();
/** Work on the bodies of requests; their shares are kept until it has come to its end. */
const works = new WeakMap<FastifyRequest, Promise<unknown>>();

/**
 * Takes bytes for what is made of the body of a request, which may be much more than the body; they are given back with it.
 * Throws `not_ready` where others leave no room.
 */
export function holdMore(request: FastifyRequest, bytes: number): void {
  if (shares.get(request)?.take(bytes) === false) throw noRoom('what comes of this one');
}

/** Bytes that a request has taken so far. */
export function heldBytesOf(request: FastifyRequest): number {
  return shares.get(request)?.bytes() ?? 0;
}

/** Keeps the share of a request until the work has come to its end, even where its client goes before. */
export function keepShareUntil(request: FastifyRequest, work: Promise<unknown>): void {
  works.set(request, work);
}

/**
 * Keeps the bodies that are held in memory by the routes registered after this within a budget. A body takes what its length
 * says before a byte of it is read, one of unknown length as it comes, and gives it back when its request is answered or
 * aborted and the route's handler, which goes on after an abort, has come to its end. What comes of it after that is passed
 * over. Beyond the budget requests are `not_ready` and come again by themselves. For an app whose key is checked before, so
 * that strangers take nothing.
 */
export function holdBodies(app: App, max: number, held: HeldBytes): void {
  const open = createBudget(max, held);
  app.addHook('onRoute', (route) => {
    const { handler } = route;
    route.handler = async function (request, reply) {
      const handled = Promise.resolve(handler.call(this, request, reply));
      keepShareUntil(request, handled);
      return handled;
    };
  });
  app.addHook('preParsing', (request, reply, payload, done) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    if (UNREAD.has(request.method) || (encoding === undefined && Number(length ?? 0) === 0)) {
      done(null, payload);
      return;
    }
    const carried = handedOver.getStore()?.held_bytes;
    const share = open(carried);
    shares.set(request, share);
    const giveBack = (): void => share.giveBack();
    finished(reply.raw, () => void Promise.resolve(works.get(request)).then(giveBack, giveBack));
    if (carried !== undefined) {
      done(null, payload);
      return;
    }
    if (length === undefined) {
      done(null, counted(payload, share, reply.raw));
      return;
    }
    // What is longer than its route allows is refused before it is read.
    const bytes = Math.min(Number(length), request.routeOptions.bodyLimit);
    if (share.take(bytes)) done(null, payload);
    else done(noRoom('this one'));
  });
}

function counted(payload: Readable, share: Share, answer: ServerResponse): Readable {
  const tap = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      if (share.take(chunk.length)) next(null, chunk);
      else next(noRoom('this one'));
    },
  });
  // Fastify stops listening once it has refused a body, and never begins where it does not read it: an error that nobody
  // hears ends the process.
  tap.on('error', () => undefined);
  // The request stays open when the tap refuses a chunk: it carries the answer.
  finished(payload, (error) => {
    if (error) tap.destroy(error);
  });
  passOverRest(payload, tap, answer);
  return payload.pipe(tap);
}

function noRoom(what: string): NightshiftError {
  return new NightshiftError('not_ready', `The bodies of other requests leave no room for ${what} just now.`);
}
