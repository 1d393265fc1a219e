import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { BodyParts } from '../read-body.ts';

/** A request passed from the main thread to the thread of large bodies. */
export interface HandedOver {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Empty once the parser has taken it. */
  body: BodyParts;
  /** Whether the body is an upload of lines, whose parts the thread asks for. Default: false. */
  readonly is_upload?: boolean;
  readonly request_id: string;
  /** Time of arrival. Unit: ns of the monotonic clock, which all threads share. */
  readonly arrived_ns: bigint;
  /** Bytes that the main thread holds for the request until the answer. */
  readonly held_bytes: number;
}

/** A request in the thread: an upload of lines arrives part by part. */
export interface ArrivedRequest extends HandedOver {
  readonly lines?: Readable;
}

/** The current request in the thread of large bodies; empty in the main thread. */
export const handedOver = new AsyncLocalStorage<ArrivedRequest>();

/** Returns the milliseconds since the request arrived, in either thread. */
export function elapsedMs(reply: FastifyReply): number {
  const { arrived_ns } = handedOver.getStore() ?? {};
  return arrived_ns === undefined ? reply.elapsedTime : Number(process.hrtime.bigint() - arrived_ns) / 1e6;
}
