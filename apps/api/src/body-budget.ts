import type { ServerResponse } from 'node:http';
import { finished, Transform, type Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { discardRest } from './discard-rest.ts';
import { isLineUpload } from './uploads/line-upload.ts';

/** Methods whose bodies Fastify does not read. */
const UNREAD = new Set(['GET', 'HEAD']);

/** Share of an upload, which holds a portion of its lines, parsed and as rows. */
const UPLOAD_BYTES = 64 * 1024 * 1024;

/** A request's share of a budget. */
export interface Share {
  /** Takes more bytes. Returns false and takes nothing if the budget is used up. */
  take(bytes: number): boolean;
  /** Bytes of the share. */
  bytes(): number;
  /** Returns all bytes to the budget, at most once. */
  giveBack(): void;
}

/** Held bytes in shared memory: of all requests, and of these by each thread beside the main thread. */
export type HeldBytes = BigInt64Array;
const ALL = 0;
/** The place of the bytes of a thread: of large bodies, or of uploads. */
export type ThreadPlace = 1 | 2;
const PLACES = 3;

/** Allocates {@link HeldBytes}. */
export function createHeldBytes(): HeldBytes {
  return new BigInt64Array(new SharedArrayBuffer(PLACES * BigInt64Array.BYTES_PER_ELEMENT));
}

/** Returns all bytes that an ended thread had taken. */
export function giveBackOfThread(held: HeldBytes, place: ThreadPlace = 1): void {
  Atomics.sub(held, ALL, Atomics.exchange(held, place, 0n));
}

/**
 * Creates a byte budget shared by requests. Their total is at most `max`, but a single request may exceed it, since it could
 * otherwise never run. `carried` counts bytes that another thread already holds for the share.
 */
export function createBudget(
  max: number,
  held = createHeldBytes(),
  place: ThreadPlace = 1,
): (carried?: number) => Share {
  return (carried) => {
    let own = carried ?? 0;
    let taken = 0;
    let isOver = false;
    const count = (bytes: number): void => {
      own += bytes;
      taken += bytes;
      if (carried !== undefined) Atomics.add(held, place, BigInt(bytes));
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

/** Shares of requests, for their bodies. */
const shares = new WeakMap<FastifyRequest, Share>();
/** Work on request bodies. A share is kept until the work ends. */
const works = new WeakMap<FastifyRequest, Promise<unknown>>();

/**
 * Takes bytes for data derived from a request's body, which may be much larger. They are returned with the body's share.
 * Throws: `not_ready` if the budget is used up.
 */
export function holdMore(request: FastifyRequest, bytes: number): void {
  if (shares.get(request)?.take(bytes) === false) throw noRoom('the data derived from this one');
}

/** Returns the bytes that a request has taken so far. */
export function heldBytesOf(request: FastifyRequest): number {
  return shares.get(request)?.bytes() ?? 0;
}

/** Keeps the share of a request until the work ends, even if its client disconnects. */
export function keepShareUntil(request: FastifyRequest, work: Promise<unknown>): void {
  works.set(request, work);
}

/**
 * Limits the memory of request bodies, for routes registered after this call.
 * A body takes its announced length before it is read; a body of unknown length takes bytes as they arrive; an upload of lines
 * takes the bytes of a portion. The share is
 * returned after the answer or abort and the end of the route's handler. Later bytes are discarded.
 * Requests beyond the budget are `not_ready`; clients retry them. Check the key first, so that strangers take nothing.
 */
export function holdBodies(app: App, max: number, held: HeldBytes, place?: ThreadPlace): void {
  const open = createBudget(max, held, place);
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
    if (isLineUpload(request)) {
      if (share.take(UPLOAD_BYTES)) done(null, payload);
      else done(noRoom('this one'));
      return;
    }
    if (length === undefined) {
      done(null, counted(payload, share, reply.raw));
      return;
    }
    // A body longer than its route's limit is refused before it is read.
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
  // Without a listener an error would end the process. Fastify removes its own after refusing a body, and adds none to an
  // unread body.
  tap.on('error', () => undefined);
  // The request stays open when the tap refuses a chunk: it carries the answer.
  finished(payload, (error) => {
    if (error) tap.destroy(error);
  });
  discardRest(payload, tap, answer);
  return payload.pipe(tap);
}

function noRoom(what: string): NightshiftError {
  return new NightshiftError(
    'not_ready',
    `The bodies of other requests leave no room for ${what} at present.`,
  );
}
