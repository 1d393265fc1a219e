import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import multipart from '@fastify/multipart';
import { isJsonObject, NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '@nightshift/db';
import { linePath } from '@nightshift/intake';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ImportOptions, ImportPlan } from '../../agent-files/plan.ts';
import { readFile } from '../../agent-files/read-file.ts';
import { collectLines } from '../../agent-files/read-line.ts';
import { holdMore, keepShareUntil } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { hashOf, idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { BODY_LIMIT_BYTES, BODY_VALUES_MAX } from '../../json-body.ts';
import { createJsonParser, type ParseJson } from '../../parse-json.ts';
import { importForm, importReport, type ImportForm, type ImportReport } from '../../schemas/agent-file.ts';
import { problems } from '../../schemas/answers.ts';
import { lineCodingOf, uploadOf } from '../../uploads/line-upload.ts';
import { parseLine } from '../../uploads/parse-line.ts';
import { readLines } from '../../uploads/read-lines.ts';
import { createUploadErrors } from '../../uploads/upload-errors.ts';
import { AGENTS_UPLOAD } from '../../uploads/upload-limits.ts';
import { yieldEvery } from '../../yielding.ts';
import { storeImport } from './store.ts';

/** Estimated bytes of memory of a byte of a file, parsed. */
const PARSED_BYTES = 4;

/** Imports agents: a file of Letta as a form, or agents as lines. */
export function importAgents(app: App, context: Context): void {
  const parse = createJsonParser(app);
  // Only this route takes forms.
  void app.register(async (scope: App) => {
    await scope.register(multipart, {
      limits: { fileSize: BODY_LIMIT_BYTES, files: 1, fields: 20, fieldSize: 100_000, parts: 21 },
    });
    scope.post(
      '/v1/agents/import',
      {
        config: { takesLines: 'at_once' },
        preValidation: async (request, reply) => {
          const upload = uploadOf(request);
          if (upload === undefined) {
            // The schema checks that there is a file.
            request.body = (await readForm(request)) as { file: string };
            return undefined;
          }
          const { strict = false } = request.query;
          const imported = importLines(context, parse, { request, reply, upload, strict });
          keepShareUntil(request, imported);
          return reply.send(await imported);
        },
        schema: {
          operationId: 'importAgents',
          summary: 'Import agents from a file',
          description:
            'All agents of the file or none. A form holds an agent file of Letta, in either format; as ' +
            '`application/jsonl` or `application/x-ndjson`, plain, gzip or zstd, each line is an agent or an agent file, up to 10,000 agents and ' +
            '64 MiB. Messages are appended to new conversations. Tools are found by name. Parts that do not come over are named.',
          tags: ['agents'],
          headers: idempotencyHeaders,
          consumes: ['multipart/form-data'],
          querystring: z.strictObject({
            strict: z
              .boolean()
              .optional()
              .describe('Refuses a file of which a part would be left out. Beyond Letta.'),
          }),
          body: importForm,
          response: { 200: importReport, ...problems },
        },
      },
      (request, reply) => {
        const { body, query } = request;
        const prepare = (): ImportPlan => {
          const errors = createUploadErrors();
          const plan = readFile(parseFile(parse, body.file), '', toOptions(body), errors);
          errors.throwIfAny();
          return plan;
        };
        const strict = body.strict ?? query.strict ?? false;
        return importOnce(context, { request, reply, strict }, prepare, hashOf(request));
      },
    );
  });
}

/** Reads the form into memory. Throws: `payload_too_large`, `unsupported_media_type`, `validation_failed`. */
async function readForm(request: FastifyRequest): Promise<Record<string, string>> {
  if (!request.isMultipart()) {
    const message =
      'Send the file as the field `file` of multipart/form-data, or agents as application/jsonl.';
    throw new NightshiftError('unsupported_media_type', message);
  }
  const form: Record<string, string> = {};
  try {
    for await (const part of request.parts()) {
      if (part.type === 'file') {
        const bytes = await part.toBuffer();
        holdMore(request, PARSED_BYTES * bytes.length);
        form[part.fieldname] = decode(bytes);
      } else form[part.fieldname] = String(part.value);
    }
  } catch (error) {
    throw formError(error);
  }
  return form;
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const message = 'is not UTF-8, which JSON requires';
    throw new NightshiftError('validation_failed', `/file ${message}.`, {
      fields: [{ path: '/file', message }],
    });
  }
}

/** Converts the errors of the form's reader. */
function formError(error: unknown): unknown {
  if (error instanceof NightshiftError || !(error instanceof Error)) return error;
  const { code = '', statusCode } = error as Error & { code?: string; statusCode?: number };
  if (statusCode === 413) {
    const message = `The file or a field of the form is larger than ${BODY_LIMIT_BYTES / 1024 / 1024} MiB, or there are more than one file.`;
    return new NightshiftError('payload_too_large', message);
  }
  // The reader of forms throws plain errors for a cut form.
  const isOfForm = code.startsWith('FST_') || /multipart|form|header/i.test(error.message);
  return isOfForm
    ? new NightshiftError('invalid_argument', `The form is cut or malformed: ${error.message}.`)
    : error;
}

function parseFile(parse: ParseJson, text: string): unknown {
  return parse(text, 'The file', BODY_VALUES_MAX);
}

function toOptions(form: ImportForm): ImportOptions {
  return {
    name: form.name ?? form.override_name ?? null,
    append_copy_suffix: form.append_copy_suffix ?? false,
    strip_messages: form.strip_messages ?? false,
    model: form.model ?? null,
    secrets: secretsOf(form),
    embedding: form.embedding ?? form.override_embedding_handle ?? null,
  };
}

function secretsOf({ secrets, env_vars_json }: ImportForm): Readonly<Record<string, string>> | null {
  const [field, text] = secrets === undefined ? ['/env_vars_json', env_vars_json] : ['/secrets', secrets];
  if (text === undefined || text === '') return null;
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value as Readonly<Record<string, string>>;
  } catch {
    // Refused below, as another value is.
  }
  const message = 'must be a JSON object of names and values';
  throw new NightshiftError('validation_failed', `${field} ${message}.`, {
    fields: [{ path: field, message }],
  });
}

interface Import {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly strict: boolean;
}

/** Imports a plan, unless an earlier request with the same `Idempotency-Key`, content and strictness has. */
function importOnce(
  context: Context,
  { request, reply, strict }: Import,
  prepare: () => ImportPlan,
  contentSha256: string,
): Promise<ImportReport> {
  const make = (trx: Tx, plan: ImportPlan): Promise<ImportReport> => storeImport(context, trx, plan, strict);
  const sha256 = createHash('sha256')
    .update(JSON.stringify([request.routeOptions.url, strict, contentSha256]))
    .digest('hex');
  return makeOnce(context, request, reply, { prepare, make, show: (report) => report }, sha256);
}

/** Reads agents, one a line, and stores them. The bytes identify the upload. Throws: the errors of the lines. */
async function importLines(
  context: Context,
  parse: ParseJson,
  { upload, ...given }: Import & { readonly upload: Readable },
): Promise<ImportReport> {
  const hash = createHash('sha256');
  const plan = await readPlan(parse, given.request, upload, (bytes) => hash.update(bytes));
  return importOnce(context, given, () => plan, hash.digest('hex'));
}

async function readPlan(
  parse: ParseJson,
  request: FastifyRequest,
  upload: Readable,
  onBytes: (bytes: Buffer) => void,
): Promise<ImportPlan> {
  const errors = createUploadErrors();
  const plans = collectLines(errors);
  const yieldIfDue = yieldEvery();
  const hold = (bytes: Buffer): void => {
    holdMore(request, PARSED_BYTES * bytes.length);
    onBytes(bytes);
  };
  for await (const { first, texts } of readLines(upload, lineCodingOf(request), AGENTS_UPLOAD, hold)) {
    for (const [index, text] of texts.entries()) {
      await yieldIfDue();
      const parsed = parseLine(parse, text, first + index);
      if ('errors' in parsed) errors.add(parsed.errors);
      else plans.add(parsed.value, linePath(first + index));
    }
  }
  errors.throwIfAny();
  const plan = plans.plan();
  if (plan.agents.length === 0) {
    throw new NightshiftError('invalid_argument', 'The upload has no lines: send an agent a line.', {
      fields: [{ path: '/lines', message: 'must hold an agent' }],
    });
  }
  return plan;
}
