import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { isJsonObject, ISSUES_MAX, NightshiftError } from '@nightshift/agent-core';
import {
  dropUpload,
  encodeLines,
  inTransaction,
  newId,
  openUpload,
  readDuplicateLines,
  readNow,
  stageLines,
} from '@nightshift/db';
import {
  linePath,
  openLinePlan,
  refuseLowLineCap,
  toCap,
  toToolChoice,
  type LinePlan,
  type UploadHead,
  type UploadLine,
} from '@nightshift/intake';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { elapsedMs } from '../../large-bodies/handed-over.ts';
import type { ParseJson } from '../../parse-json.ts';
import { requestInput, templateValues } from '../../schemas/batch.ts';
import { uploadFirstLine } from '../../schemas/upload.ts';
import { lineCodingOf } from '../../uploads/line-upload.ts';
import { parseLine, validateLine, type ParsedLine } from '../../uploads/parse-line.ts';
import { lineError, readLines, type Lines } from '../../uploads/read-lines.ts';
import { createUploadErrors, refusalOf } from '../../uploads/upload-errors.ts';
import { BATCH_UPLOAD, UPLOAD_REQUESTS_MAX } from '../../uploads/upload-limits.ts';
import { yieldEvery } from '../../yielding.ts';
import { acceptOnce } from './accept-once.ts';
import { idempotencyOf } from './idempotency.ts';
import { findEarlier, type OnceStored } from './once.ts';

/** Lines and characters that are checked at once. */
const PORTION_LINES = 500;
const PORTION_CHARS = 2 * 1024 * 1024;
/** Bytes that are staged at once. */
const STAGED_BYTES = 2 * 1024 * 1024;
/** Longest time of an upload; the sweep drops older ones. Unit: ms. */
const UPLOAD_MS_MAX = 12 * 3_600_000;
const NO_HEAD: UploadHead = {
  ...{ options: {}, template: null, tools: null },
  ...{ path: '', filled_chars_max: BATCH_UPLOAD.bytes },
};

/** An upload with its request. */
interface Upload {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly upload: Readable;
}

/**
 * Receives a batch line by line: stages the lines in portions, and stores the batch in one short transaction after the last.
 * Throws: the errors of the lines, with nothing stored or staged.
 */
export async function createFromLines(
  context: Context,
  parse: ParseJson,
  { request, reply, upload }: Upload,
): Promise<OnceStored> {
  const { db, projectId } = context;
  const coding = lineCodingOf(request);
  const { key, replay_minutes } = idempotencyOf(request, '');
  const now = await readNow(db);
  const arrivedAt = new Date(now.getTime() - elapsedMs(reply));
  const hash = createHash('sha256');
  const lines = readLines(upload, coding, BATCH_UPLOAD, (bytes) => hash.update(bytes));
  const identified = () => idempotencyOf(request, hash.digest('hex'));

  if (await isKeyUsed(context, key, replay_minutes, arrivedAt)) {
    // The lines of a replay may be refused now, so they are only hashed.
    for await (const _ of lines);
    const earlier = await findEarlier(db, projectId, identified(), arrivedAt);
    if (earlier !== null) return earlier;
    throw new NightshiftError('not_ready', 'The Idempotency-Key has just expired. Send the upload again.');
  }
  const batch_id = newId();
  // Lines that cannot be deleted now are dropped by the sweep.
  const drop = () =>
    dropUpload(db, batch_id).catch((cause: unknown) => request.log.warn({ err: cause }, 'upload_left'));
  await openUpload(db, projectId, batch_id);
  try {
    const { head, plan, count } = await stageAll(context, parse, { lines, batch_id, now });
    const cap = toCap(head.options);
    await refuseLowLineCap(context, { batch_id, lines: count, shared: plan.shared }, cap).catch(
      (error: unknown) => {
        throw placed(error, head.path);
      },
    );
    const prepared = {
      ...{ options: head.options, batch_id, lines: count, shared: plan.shared },
      has_capped_runs: plan.hasCappedRuns(),
    };
    const idempotency = identified();
    const made = await inTransaction(db, (trx) =>
      acceptOnce(trx, context, { prepared, now, arrivedAt }, idempotency),
    );
    if (made.replayed) await drop();
    return made;
  } catch (error) {
    await drop();
    throw error;
  }
}

async function isKeyUsed(
  { db, projectId }: Context,
  key: string,
  replay_minutes: number | null,
  arrivedAt: Date,
): Promise<boolean> {
  if (!key.startsWith('key:')) return false;
  const unknown = { key, request_sha256: '', replay_minutes, by_retry: false };
  try {
    return (await findEarlier(db, projectId, unknown, arrivedAt)) !== null;
  } catch (error) {
    if (error instanceof NightshiftError && error.code === 'idempotency_mismatch') return true;
    throw error;
  }
}

/** An upload without its refusals. */
interface StagedUpload {
  readonly head: UploadHead;
  readonly plan: LinePlan;
  readonly count: number;
}

/** Checks and stages all lines, a portion while the one before is written. Throws: the errors of the lines. */
async function stageAll(
  context: Context,
  parse: ParseJson,
  {
    lines,
    batch_id,
    now,
  }: { readonly lines: AsyncIterable<Lines>; readonly batch_id: string; readonly now: Date },
): Promise<StagedUpload> {
  const endsAt = performance.now() + UPLOAD_MS_MAX;
  const errors = createUploadErrors();
  const yieldIfDue = yieldEvery();
  let opened: { readonly head: UploadHead; readonly plan: LinePlan } | null = null;
  let portion: UploadLine[] = [];
  let chars = 0;
  let count = 0;
  let staged = 0;
  let encoded: Buffer[] = [];
  let encodedBytes = 0;
  let staging: Promise<void> = Promise.resolve();

  const stage = async (): Promise<void> => {
    const next = encoded;
    encoded = [];
    encodedBytes = 0;
    await staging;
    staging = stageLines(context.db, next);
    // Awaited with the next portion.
    staging.catch(() => undefined);
  };
  const flush = async (plan: LinePlan): Promise<void> => {
    while (portion.length > 0) {
      const planned = await plan.plan(portion);
      portion = portion.slice(planned.taken);
      for (const found of planned.errors) errors.add(found);
      if (!errors.isEmpty()) continue;
      const bytes = encodeLines({ batch_id, project_id: context.projectId }, staged, planned.lines);
      encoded.push(bytes);
      encodedBytes += bytes.length;
      staged += planned.lines.length;
      if (encodedBytes >= STAGED_BYTES) await stage();
    }
    chars = 0;
  };

  try {
    for await (const { first, texts } of lines) {
      if (performance.now() > endsAt)
        throw new NightshiftError('request_timeout', 'The upload took 12 hours.');
      await yieldIfDue();
      for (const [index, text] of texts.entries()) {
        const line = first + index;
        const parsed = parseLine(parse, text, line);
        if (opened === null) {
          const head = toHead(parsed);
          opened = { head, plan: openLinePlan({ ...context, now }, head) };
          if (head !== NO_HEAD) continue;
        }
        if (++count > UPLOAD_REQUESTS_MAX) throw tooMany();
        const request = validateRequest(opened.head, parsed, line);
        if ('errors' in request) errors.add(request.errors);
        else portion.push({ line, request: request.value });
        chars += text.length;
        if (portion.length >= PORTION_LINES || chars >= PORTION_CHARS) await flush(opened.plan);
      }
    }
    if (opened === null || count === 0) throw withoutRequests();
    await flush(opened.plan);
    errors.throwIfAny();
    await stage();
    await staging;
  } finally {
    // A write that is under way would leave lines behind. Its error is thrown above, unless another came first.
    await staging.catch(() => undefined);
  }
  await refuseDuplicates(context, batch_id, opened.head === NO_HEAD ? 1 : 2);
  return { ...opened, count };
}

/** Reads the batch of the first line; {@link NO_HEAD} for another line. Throws: `validation_failed`. */
function toHead(parsed: ParsedLine<unknown>): UploadHead {
  if ('errors' in parsed) return NO_HEAD;
  const { value } = parsed;
  if (!isJsonObject(value) || (!('batch' in value) && !('agent_id' in value)))
    throw lineError(1, 'is neither {"batch": {…}} nor a request with an agent_id');
  if (!('batch' in value)) return NO_HEAD;
  const path = `${linePath(1)}/batch`;
  if (isJsonObject(value['batch']) && value['batch']['agents'] != null) {
    const message = 'is of a fleet, which has no lines: send it as application/json';
    throw new NightshiftError('validation_failed', `${path}/agents ${message}. Nothing was stored.`, {
      fields: [{ path: `${path}/agents`, message }],
    });
  }
  const first = validateLine(uploadFirstLine, value, 1);
  if ('errors' in first) throw refusalOf(first.errors);
  const { template, tools, server_tools, ...options } = first.value.batch;
  return {
    ...NO_HEAD,
    options,
    template: template ?? null,
    tools: toToolChoice({ tools, server_tools }),
    path,
  };
}

function validateRequest({ template }: UploadHead, parsed: ParsedLine<unknown>, line: number) {
  if ('errors' in parsed) return parsed;
  return template === null
    ? validateLine(requestInput, parsed.value, line)
    : validateLine(templateValues, parsed.value, line);
}

/** Refuses custom ids that an earlier line has. */
async function refuseDuplicates({ db }: Context, batchId: string, firstLine: number): Promise<void> {
  const { lines, total } = await inTransaction(db, (trx) => readDuplicateLines(trx, batchId, ISSUES_MAX));
  const errors = createUploadErrors();
  const fields = lines.map(({ ordinal, first }) => ({
    path: `${linePath(firstLine + ordinal)}/custom_id`,
    message: `is the same as the custom_id of ${linePath(firstLine + first)}`,
  }));
  errors.add({ code: 'validation_failed', fields, total });
  errors.throwIfAny();
}

function withoutRequests(): NightshiftError {
  return new NightshiftError('invalid_argument', 'The upload has no requests: send one a line.', {
    fields: [{ path: '/lines', message: 'must hold a request' }],
  });
}

function tooMany(): NightshiftError {
  const most = UPLOAD_REQUESTS_MAX.toLocaleString('en');
  return new NightshiftError(
    'payload_too_large',
    `The upload has more than ${most} requests. Split it over several batches.`,
  );
}

/** Puts the path of the batch before the fields of an error. */
function placed(error: unknown, path: string): unknown {
  if (!(error instanceof NightshiftError)) return error;
  const { code, message, fields, fields_total } = error;
  return new NightshiftError(code, message, {
    fields: fields.map((field) => ({ ...field, path: `${path}${field.path}` })),
    fields_total,
  });
}
