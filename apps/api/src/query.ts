import { NightshiftError } from '@nightshift/agent-core';
import type { preValidationHookHandler } from 'fastify';
import { z } from 'zod';

/** Most values of a query parameter. */
export const QUERY_LIST_MAX = 1_000;

/**
 * Converts query parameters to the types of the route's schema, before validation: a single value to a list, `true` and `false`
 * to booleans, digits to numbers.
 * Drops empty values, because Letta's client sends null this way.
 * Throws: `validation_failed` for any parameter of a route without a schema.
 */
export const coerceQuery: preValidationHookHandler = (request, _reply, done) => {
  const schema = request.routeOptions.schema?.querystring;
  const given = Object.entries(request.query as Record<string, unknown>);
  if (schema instanceof z.ZodObject) {
    const shape = schema.shape as Record<string, z.core.$ZodType | undefined>;
    request.query = Object.fromEntries(
      given
        .filter(([name, value]) => value !== '' || !Object.hasOwn(shape, name))
        .map(([name, value]) => [name, coerce(value, Object.hasOwn(shape, name) ? shape[name] : undefined)]),
    );
  } else if (given[0] !== undefined && !request.is404) {
    done(unknownParameter(given[0][0]));
    return;
  }
  done();
};

function unknownParameter(name: string): NightshiftError {
  const path = `?${name}`;
  const message = 'is not known here';
  return new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
}

function coerce(value: unknown, schema: z.core.$ZodType | undefined): unknown {
  const type = schema === undefined ? undefined : unwrap(schema);
  if (type instanceof z.ZodArray) {
    const values: readonly unknown[] = Array.isArray(value) ? value : [value];
    return values.map((item) => coerce(item, type.element));
  }
  if (typeof value !== 'string') return value;
  if (type instanceof z.ZodBoolean && (value === 'true' || value === 'false')) return value === 'true';
  if (type instanceof z.ZodNumber && /^-?\d{1,15}$/.test(value)) return Number(value);
  return value;
}

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return unwrap(schema.unwrap());
  }
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}

/** Returns the values of a filter with two names in Letta, singular and plural; null for no filter. */
export function eitherOf(
  one: string | undefined,
  many: readonly string[] | undefined,
): readonly string[] | null {
  const values = [...(one === undefined ? [] : [one]), ...(many ?? [])];
  return values.length === 0 ? null : values;
}
