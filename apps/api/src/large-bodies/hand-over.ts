import type { FastifyRequest } from 'fastify';
import { heldBytesOf, keepShareUntil } from '../body-budget.ts';
import type { App } from '../context.ts';
import type { BodyParts } from '../read-body.ts';
import { uploadOf } from '../uploads/line-upload.ts';
import type { LargeBodyThread } from './start-thread.ts';

/** Bodies for the thread, from the parser to {@link handOverLargeBodies}. */
const bodies = new WeakMap<FastifyRequest, BodyParts>();

/** Headers of the answer's connection, or headers that are set again. */
const OWN_HEADERS = ['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding'];

/** Marks a request for the thread of large bodies. */
export function markLarge(request: FastifyRequest, body: BodyParts): void {
  bodies.set(request, body);
}

/**
 * Answers the marked requests through the thread, and uploads that are taken in portions through a thread of their own, for
 * routes registered after this call.
 */
export function handOverLargeBodies(app: App, thread: LargeBodyThread, uploadThread: LargeBodyThread): void {
  app.addHook('preValidation', async (request, reply) => {
    const upload = uploadOf(request);
    const body = upload === undefined ? bodies.get(request) : [];
    if (body === undefined) return;
    bodies.delete(request);
    const { method, url, headers, id: request_id } = request;
    const handed = {
      method,
      url,
      headers,
      body,
      is_upload: upload !== undefined,
      request_id,
      arrived_ns: process.hrtime.bigint() - BigInt(Math.round(reply.elapsedTime * 1e6)),
      held_bytes: heldBytesOf(request),
    };
    const isInPortions = request.routeOptions.config.takesLines === 'in_portions';
    const answered = (upload !== undefined && isInPortions ? uploadThread : thread).answer(handed, upload);
    keepShareUntil(request, answered);
    const answer = await answered;
    const said = Object.entries(answer.headers).filter(([name]) => !OWN_HEADERS.includes(name));
    return reply.code(answer.status).headers(Object.fromEntries(said)).send(Buffer.from(answer.body.buffer));
  });
}
