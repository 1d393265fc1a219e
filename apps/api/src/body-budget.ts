import type { ServerResponse } from 'node:http';
import { finished, Transform, type Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { passOverRest } from './pass-over-rest.ts';

/** Methods whose bodies Fastify does not read. */
const UNREAD = new Set(['GET', 'HEAD']);

/** What is taken of a budget by one request. */
export interface Share {
  /** Takes so many bytes more. False, and nothing is taken, where others leave no room for them. */
  take(bytes: number): boolean;
  /** Gives all of it back, once. */
  giveBack(): void;
}

/**
 * A budget of bytes that requests share: together they hold `max` at most, but for one that is alone, which may hold more:
 * what no budget has room for would never go.
 */
export function createBudget(max: number): () => Share {
  let held = 0;
  return () => {
    let own = 0;
    let isOver = false;
    return {
      take: (bytes) => {
        if (isOver || (held > own && held + bytes > max)) return false;
        held += bytes;
        own += bytes;
        return true;
      },
      giveBack: () => {
        held -= own;
        own = 0;
        isOver = true;
      },
    };
  };
}

/** What requests have taken for their bodies. */
const shares = new WeakMap<FastifyRequest, Share>();

/**
 * Takes bytes for what is made of the body of a request, which may be much more than the body; they are given back with it.
 * Throws `not_ready` where others leave no room.
 */
export function holdMore(request: FastifyRequest, bytes: number): void {
  if (shares.get(request)?.take(bytes) === false) throw noRoom('what comes of this one');
}

/**
 * Keeps the bodies that are held in memory by the routes registered after this within a budget. A body takes what its length
 * says before a byte of it is read, one of unknown length as it comes, and gives it back when its request is answered or
 * aborted and the route's handler, which goes on after an abort, has come to its end. What comes of it after that is passed
 * over. Beyond the budget requests are `not_ready` and come again by themselves. For an app whose key is checked before, so
 * that strangers take nothing.
 */
export function holdBodies(app: App, max: number): void {
  const open = createBudget(max);
  const handling = new WeakMap<FastifyRequest, Promise<unknown>>();
  app.addHook('onRoute', (route) => {
    const { handler } = route;
    route.handler = async function (request, reply) {
      const handled = Promise.resolve(handler.call(this, request, reply));
      handling.set(request, handled);
      return handled;
    };
  });
  app.addHook('preParsing', (request, reply, payload, done) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    if (UNREAD.has(request.method) || (encoding === undefined && Number(length ?? 0) === 0)) {
      done(null, payload);
      return;
    }
    const share = open();
    shares.set(request, share);
    const giveBack = (): void => share.giveBack();
    finished(reply.raw, () => void Promise.resolve(handling.get(request)).then(giveBack, giveBack));
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
