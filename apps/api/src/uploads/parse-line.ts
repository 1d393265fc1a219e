import { NightshiftError } from '@nightshift/agent-core';
import { linePath, type LineErrors } from '@nightshift/intake';
import type { z } from 'zod';
import { toFieldErrors } from '../errors/field-errors.ts';
import type { ParseJson } from '../parse-json.ts';
import { LOST_LINE_ENDS } from './read-lines.ts';

/** Most values of a line. */
const LINE_VALUES_MAX = 500_000;

/** The value of a line, or its errors. */
export type ParsedLine<T> = { readonly value: T } | { readonly errors: LineErrors };

/** Parses the JSON of a line. */
export function parseLine(parse: ParseJson, text: string, line: number): ParsedLine<unknown> {
  try {
    return { value: parse(text, `Line ${line}`, LINE_VALUES_MAX) };
  } catch (error) {
    if (!(error instanceof NightshiftError)) throw error;
    const message = hasNext(text, error.message) ? `${error.message} ${LOST_LINE_ENDS}.` : error.message;
    const fields = error.fields.length === 0 ? [{ path: '', message }] : error.fields;
    return { errors: errorsAt(linePath(line), { fields, fields_total: fields.length }) };
  }
}

/** Tells whether another object follows the value of a line, by the engine's reason for refusing it. */
function hasNext(text: string, reason: string): boolean {
  const [, place] = /after JSON at position (\d+)/.exec(reason) ?? [];
  return place !== undefined && text[Number(place)] === '{';
}

/** Validates the value of a line, as the value in a JSON body is. */
export function validateLine<T>(schema: z.ZodType<T>, value: unknown, line: number): ParsedLine<T> {
  return validateAt(schema, value, linePath(line));
}

/** Validates a value whose place is a JSON Pointer. */
export function validateAt<T>(schema: z.ZodType<T>, value: unknown, path: string): ParsedLine<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return { value: parsed.data };
  const issues = parsed.error.issues.map((issue) => ({
    instancePath: `/${issue.path.map(String).join('/')}`,
    message: issue.message,
    params: { ...issue },
  }));
  return { errors: errorsAt(path, toFieldErrors(issues, 'body')) };
}

function errorsAt(
  at: string,
  { fields, fields_total }: { readonly fields: LineErrors['fields']; readonly fields_total: number | null },
): LineErrors {
  return {
    code: 'validation_failed',
    fields: fields.map(({ path, message }) => ({ path: `${at}${path}`, message })),
    total: fields_total,
  };
}
