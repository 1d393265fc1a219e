import {
  checkInputSchema,
  checkResultSchema,
  ISSUES_MAX,
  NightshiftError,
  type FieldError,
} from '@nightshift/agent-core';
import { yieldEvery } from '@nightshift/services';
import { HELD_MS_MAX } from './held.ts';
import type { FleetRequest, RunRequest, RunsRequest } from './request.ts';
import { sentence } from './sentence.ts';

/** Maximum number of different schemas in one batch; compiling each takes a millisecond or more. */
const SCHEMAS_MAX = 1_000;
/** Maximum characters of all different schemas together; a large schema takes seconds to compile. */
const SCHEMAS_CHARS_MAX = 2_000_000;

/** The parts of a body that hold schemas; a fleet has them at its top level. */
type SchemaHolders = RunsRequest & { readonly fleet?: FleetRequest };

/** Returns the problem of a schema as a sentence; null without one. */
type SchemaCheck = (schema: unknown) => string | null;

/** The checks of schemas of client tools and of results. */
type SchemaChecks = Readonly<Record<'tool' | 'result', SchemaCheck>>;
const CHECKS: SchemaChecks = { tool: checkInputSchema, result: checkResultSchema };

/**
 * Checks the schemas in the requests of a batch, equal ones once.
 * Throws: `validation_failed` for invalid schemas, or for the first schema above the limits.
 */
export async function assertSchemas(body: SchemaHolders, checks: SchemaChecks = CHECKS): Promise<void> {
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  const check = createSchemaCheck(checks);
  const fields: FieldError[] = [];
  for (const [path, holder] of holdersOf(body)) {
    for (const problem of check(path, holder)) {
      await yieldIfDue();
      if (problem !== null) fields.push(problem);
    }
    if (fields.length >= ISSUES_MAX) break;
  }
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('validation_failed', sentence(`${first.path}: ${first.message}`), {
    fields: fields.slice(0, ISSUES_MAX),
    fields_total: fields.length >= ISSUES_MAX ? null : fields.length,
  });
}

/** A request or a template, as far as it has schemas. */
type SchemaHolder = Pick<RunRequest, 'client_tools' | 'response_format'>;

/**
 * Creates the check of the schemas of a batch, request by request. It yields after each schema of the request at a pointer:
 * its error, or null.
 * Throws: `validation_failed` for the first schema above the limits.
 */
export function createSchemaCheck(
  checks: SchemaChecks = CHECKS,
): (path: string, holder: SchemaHolder) => Generator<FieldError | null> {
  const verdicts = new Map<string, string | null>();
  let chars = 0;
  return function* (holderPath, holder) {
    for (const { path, kind, schema } of schemasOf(holderPath, holder)) {
      const key = `${kind} ${JSON.stringify(schema)}`;
      let message = verdicts.get(key);
      if (message === undefined) {
        chars += key.length;
        if (verdicts.size === SCHEMAS_MAX)
          throw tooMany(path, `the requests of a batch may have ${SCHEMAS_MAX} different schemas`);
        if (chars > SCHEMAS_CHARS_MAX)
          throw tooMany(
            path,
            `the different schemas of a batch may have ${SCHEMAS_CHARS_MAX} characters together`,
          );
        message = checks[kind](schema);
        verdicts.set(key, message);
      }
      yield message === null ? null : { path, message };
    }
  };
}

function* holdersOf(body: SchemaHolders): Generator<readonly [path: string, holder: SchemaHolder]> {
  const { requests, template, fleet } = body;
  if (fleet != null) yield ['', fleet];
  else if (template != null) yield ['/template', template];
  else for (const [index, request] of (requests ?? []).entries()) yield [`/requests/${index}`, request];
}

function* schemasOf(path: string, { client_tools, response_format }: SchemaHolder) {
  for (const [place, { parameters }] of (client_tools ?? []).entries()) {
    if (parameters == null) continue;
    yield { path: `${path}/client_tools/${place}/parameters`, kind: 'tool', schema: parameters } as const;
  }
  if (response_format?.type === 'json_schema') {
    const { schema } = response_format.json_schema;
    yield { path: `${path}/response_format/json_schema/schema`, kind: 'result', schema } as const;
  }
}

function tooMany(path: string, limit: string): NightshiftError {
  const message =
    `is one schema too many: ${limit}. ` +
    'Use the same schemas in several requests, move them to tools or response_format of the agents, or split the batch.';
  return new NightshiftError('validation_failed', `${path} ${message}`, { fields: [{ path, message }] });
}
