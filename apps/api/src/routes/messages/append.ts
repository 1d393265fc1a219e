import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { NightshiftError } from '@nightshift/agent-core';
import { appendMessages as commitAppend, type AppendItem, type Tx } from '@nightshift/db';
import { BATCH_BYTES_MAX, linePath, toMessages } from '@nightshift/intake';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { holdMore, keepShareUntil } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { createJsonParser, type ParseJson } from '../../parse-json.ts';
import {
  appendInput,
  appendItem,
  appendReport,
  bulkAppendInput,
  MESSAGES_MAX,
  type AppendReport,
} from '../../schemas/append.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { lineCodingOf, uploadOf } from '../../uploads/line-upload.ts';
import { parseLine, validateLine } from '../../uploads/parse-line.ts';
import { lineError, readLines } from '../../uploads/read-lines.ts';
import { createUploadErrors } from '../../uploads/upload-errors.ts';
import { APPEND_UPLOAD } from '../../uploads/upload-limits.ts';
import { yieldEvery } from '../../yielding.ts';

const ALL_OR_NOTHING =
  'Later runs see them like any other message. Up to 100,000 messages, all or none. Safe to repeat if every message has ' +
  'an `otid`, or with an `Idempotency-Key`.';

/** Appends messages to the conversation of an agent. */
export function appendMessages(app: App, context: Context): void {
  app.post(
    '/v1/agents/:agent_id/messages/append',
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'appendMessages',
        summary: 'Append messages to an agent without a run',
        description: `Adds messages that were said elsewhere to the agent's conversation, in the given order. ${ALL_OR_NOTHING} Beyond Letta.`,
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        headers: idempotencyHeaders,
        body: appendInput,
        response: { 200: appendReport, ...problems },
      },
    },
    (request, reply) =>
      append(context, request, reply, () => [toItem({ ...request.params, ...request.body }, '')]),
  );
}

/** Appends messages to the conversations of many agents. */
export function appendMessagesOfAgents(app: App, context: Context): void {
  const parse = createJsonParser(app);
  app.post(
    '/v1/messages/append',
    {
      bodyLimit: BATCH_BYTES_MAX,
      config: { takesLines: 'at_once' },
      preValidation: async (request, reply) => {
        const upload = uploadOf(request);
        if (upload === undefined) return;
        const appended = appendLines(context, request, reply, parse, upload);
        keepShareUntil(request, appended);
        return reply.send(await appended);
      },
      schema: {
        operationId: 'appendMessagesOfAgents',
        summary: 'Append messages to many agents without runs',
        description: `Adds messages that were said elsewhere to the agents' conversations, in the given order. ${ALL_OR_NOTHING} Beyond Letta. As \`application/jsonl\` or \`application/x-ndjson\`, plain, gzip or zstd, each line is an item.`,
        tags: ['agents'],
        headers: idempotencyHeaders,
        body: bulkAppendInput,
        response: { 200: appendReport, ...problems },
      },
    },
    (request, reply) =>
      append(context, request, reply, () =>
        request.body.items.map((item, index) => toItem(item, `/items/${index}`)),
      ),
  );
}

/** Estimated bytes of memory of a byte of a line, parsed. */
const PARSED_BYTES = 2;

/** Reads the items of an upload, one a line. Throws: the errors of the lines. */
async function readItems(
  request: FastifyRequest,
  parse: ParseJson,
  upload: Readable,
  onBytes: (bytes: Buffer) => void,
): Promise<readonly AppendItem[]> {
  const errors = createUploadErrors();
  const yieldIfDue = yieldEvery();
  const items: AppendItem[] = [];
  let room = MESSAGES_MAX;
  const hold = (bytes: Buffer): void => {
    holdMore(request, PARSED_BYTES * bytes.length);
    onBytes(bytes);
  };
  for await (const { first, texts } of readLines(upload, lineCodingOf(request), APPEND_UPLOAD, hold)) {
    await yieldIfDue();
    for (const [index, text] of texts.entries()) {
      const line = first + index;
      const parsed = parseLine(parse, text, line);
      const item = 'errors' in parsed ? parsed : validateLine(appendItem, parsed.value, line);
      if ('errors' in item) {
        errors.add(item.errors);
        continue;
      }
      room -= item.value.messages.length;
      if (room < 0) {
        const message = `is more than the ${MESSAGES_MAX.toLocaleString('en')} messages of a request: send the rest in another`;
        throw lineError(line, message);
      }
      items.push(toItem(item.value, linePath(line)));
    }
  }
  errors.throwIfAny();
  if (items.length === 0) {
    throw new NightshiftError('invalid_argument', 'The upload has no lines: send an item a line.', {
      fields: [{ path: '/lines', message: 'must hold an item' }],
    });
  }
  return items;
}

/** Appends the lines of an upload. Its bytes identify it, so it is read whole before its key is looked up. */
async function appendLines(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  parse: ParseJson,
  upload: Readable,
): Promise<AppendReport> {
  const hash = createHash('sha256');
  const items = await readItems(request, parse, upload, (bytes) => hash.update(bytes));
  return append(context, request, reply, () => items, hash.digest('hex'));
}

function append(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  prepare: () => readonly AppendItem[],
  request_sha256?: string,
): Promise<AppendReport> {
  const make = async (trx: Tx, items: readonly AppendItem[]): Promise<AppendReport> => ({
    ...(await commitAppend(trx, context.projectId, items)),
  });
  return makeOnce(context, request, reply, { prepare, make, show: (report) => report }, request_sha256);
}

export interface RequestedItem extends z.output<typeof appendInput> {
  readonly agent_id: string;
}

/** Converts validated messages of an agent to an append. */
export function toItem({ agent_id, messages }: RequestedItem, path: string): AppendItem {
  const said = toMessages({ messages });
  return {
    agent_id,
    path,
    messages: said.map((message, index) => ({ ...message, said_at: messages[index]?.said_at ?? null })),
  };
}
