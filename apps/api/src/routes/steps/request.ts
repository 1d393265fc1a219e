import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { apportionTokens, NightshiftError, promptTokens, stepUuid, toWireId } from '@nightshift/agent-core';
import { readStep } from '@nightshift/db';
import { rebuildRequest } from '@nightshift/intake';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { stepRequest } from '../../schemas/step-request.ts';
import { yieldEvery } from '../../yielding.ts';
import { countDownload } from '../batch-results/download.ts';

/** Characters of a request that are hashed or sent together. */
const CHUNK_CHARS = 256 * 1024;

/** Shows what the model saw in a step. */
export function retrieveStepRequest(app: App, context: Context): void {
  app.get(
    '/v1/steps/:step_id/request',
    {
      // A HEAD would rebuild the request.
      exposeHeadRoute: false,
      schema: {
        operationId: 'retrieveStepRequest',
        summary: 'Read what the model saw: the request of an attempt of a step',
        description:
          'Rebuilt from the stored rows, with the bytes that were sent, and with the tokens of each part of the prompt. ' +
          'Beyond Letta.',
        tags: ['steps'],
        params: z.object({ step_id: wireId('step') }),
        response: { 200: stepRequest, ...problems },
      },
    },
    async (request, reply) => {
      countDownload(context, reply);
      const step = await readStep(context.db, context.projectId, request.params.step_id);
      const rebuilt = await rebuildRequest(context.db, step);
      if (rebuilt === undefined)
        throw new NightshiftError('not_found', `There is no step step-${request.params.step_id}.`);
      const { params, model, sent_at, inexact_because, bytes, media } = rebuilt;
      const facts = {
        id: toWireId('step', stepUuid(step)),
        run_id: toWireId('run', step.run_id),
        model,
        sent_at: sent_at?.toISOString() ?? null,
        is_exact: inexact_because.length === 0,
        inexact_because: [...inexact_because],
        ...(await measure(params)),
        tokens: promptTokens(step) || null,
        parts: [...apportionTokens(bytes, media, step)],
      } satisfies Omit<z.output<typeof stepRequest>, 'request'>;
      const before = `${JSON.stringify(facts).slice(0, -1)},"request":`;
      return send(reply, Readable.from(chunksOf([before, ...params, '}']), { highWaterMark: 1 }));
    },
  );
}

/** Sends the text of the answer: a parsed request would have other bytes. */
const send = (reply: FastifyReply, text: Readable): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(text);

async function measure(
  params: readonly string[],
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const yieldIfDue = yieldEvery();
  const hash = createHash('sha256');
  let bytes = 0;
  for (const chunk of chunksOf(params)) {
    await yieldIfDue();
    bytes += Buffer.byteLength(chunk);
    hash.update(chunk);
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** Cuts texts into chunks of whole characters. */
function* chunksOf(texts: readonly string[]): Generator<string, undefined> {
  for (const text of texts) {
    for (let from = 0; from < text.length;) {
      const end = Math.min(text.length, from + CHUNK_CHARS);
      const to = end < text.length && isHighSurrogate(text.charCodeAt(end - 1)) ? end + 1 : end;
      yield text.slice(from, to);
      from = to;
    }
  }
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code < 0xdc00;
