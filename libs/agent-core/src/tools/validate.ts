import { isJsonObject, JSON_DEPTH_MAX, type Json, type JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { createSchemaCompiler, type CompiledSchema, type SchemaError } from './schema-compiler.ts';

/** Valid arguments of a call, or the error for the model. */
export type CheckedArguments =
  { readonly ok: true; readonly args: JsonObject } | { readonly ok: false; readonly message: string };

export type ArgumentValidator = (tool: ToolDefinition, input: Json) => CheckedArguments;

/** Compiled schemas kept by a validator; the least recently used makes room. */
const SCHEMAS_KEPT_MAX = 1000;
/** Maximum number of values (of any kind) in the arguments of a call. */
const ARGUMENT_VALUES_MAX = 100_000;
const ERRORS_LISTED_MAX = 5;
const MESSAGE_CHARS_MAX = 1000;
/** Property keys that the provider accepts at the top. */
const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
const KEY_CHARS_SHOWN_MAX = 64;

/**
 * Makes a validator of tool arguments. Compiled schemas are kept by text, so equal tools of many agents share a schema.
 * It never throws or changes the input. Errors name each field, for the model: `Invalid arguments for tool 'x': /label
 * must be string; missing required property 'y'`.
 */
export function createArgumentValidator(): ArgumentValidator {
  const compile = createSchemaCompiler();
  const byTool = new WeakMap<ToolDefinition, CompiledSchema>();
  const byText = new Map<string, CompiledSchema>();

  function compiledSchemaOf(tool: ToolDefinition): CompiledSchema {
    const known = byTool.get(tool);
    if (known !== undefined) return known;
    const text = JSON.stringify(tool.input_schema);
    const compiled = byText.get(text) ?? compile(tool.input_schema);
    byText.delete(text);
    byText.set(text, compiled);
    if (byText.size > SCHEMAS_KEPT_MAX) {
      for (const oldest of byText.keys()) {
        byText.delete(oldest);
        break;
      }
    }
    byTool.set(tool, compiled);
    return compiled;
  }

  return (tool, input) => {
    if (!isJsonObject(input)) return refuse(tool, 'the input must be an object');
    if (!isReasonable(input)) {
      return refuse(
        tool,
        `at most ${ARGUMENT_VALUES_MAX} values, nested at most ${JSON_DEPTH_MAX} deep, are accepted`,
      );
    }
    const schema = compiledSchemaOf(tool);
    if (!schema.ok) {
      return {
        ok: false,
        message: cut(
          `Tool '${tool.name}' cannot be called: its input schema is not usable (${schema.message}).`,
        ),
      };
    }
    try {
      const errors = schema.check(input);
      return errors.length === 0 ? { ok: true, args: input } : refuse(tool, listErrors(errors));
    } catch (error) {
      return refuse(tool, error instanceof Error ? error.message : String(error));
    }
  };
}

let compileForCheck: ReturnType<typeof createSchemaCompiler> | null = null;

/**
 * Checks the input schema of a new tool: returns the error as a sentence, or null.
 * Refused, because later requests or calls would fail: a type other than object, and a schema that does not compile. At
 * the top also `oneOf`, `allOf`, `anyOf` and unusual keys: the provider answers them with 400 for the whole request.
 */
export function checkInputSchema(schema: unknown): string | null {
  if (!isJsonObject(schema)) return 'The input schema must be an object.';
  if (schema['type'] !== 'object') return "The input schema must have type 'object' at the top.";
  for (const keyword of ['oneOf', 'allOf', 'anyOf']) {
    if (Object.hasOwn(schema, keyword)) {
      return `The input schema must not have '${keyword}' at the top; the provider refuses it. Move it into a property.`;
    }
  }
  const { properties } = schema;
  const key = isJsonObject(properties) ? Object.keys(properties).find(isOddKey) : undefined;
  if (key !== undefined) {
    const shown =
      key.length <= KEY_CHARS_SHOWN_MAX ? key : `${key.slice(0, KEY_CHARS_SHOWN_MAX)}…`.toWellFormed();
    return (
      `The input schema must not have the property '${shown}' at the top; the provider takes keys of 1 to 64 letters, ` +
      "digits, '_', '.' and '-'. Give it such a name."
    );
  }
  compileForCheck ??= createSchemaCompiler();
  const compiled = compileForCheck(schema);
  return compiled.ok ? null : cut(`The input schema is not usable: ${compiled.message}.`);
}

function isOddKey(key: string): boolean {
  return !PROPERTY_KEY.test(key);
}

function refuse(tool: ToolDefinition, reason: string): CheckedArguments {
  return { ok: false, message: cut(`Invalid arguments for tool '${tool.name}': ${reason}`) };
}

function cut(text: string): string {
  return text.length <= MESSAGE_CHARS_MAX ? text : `${text.slice(0, MESSAGE_CHARS_MAX)}…`.toWellFormed();
}

function listErrors(errors: readonly SchemaError[]): string {
  const distinct = [
    ...new Set(errors.map(({ path, message }) => (path === '' ? message : `${path} ${message}`))),
  ];
  const listed = distinct.slice(0, ERRORS_LISTED_MAX).join('; ');
  const more = distinct.length - ERRORS_LISTED_MAX;
  return more > 0 ? `${listed}; and ${more} more` : listed;
}

/** Checks the size of the input without recursion, so that no depth overflows. Visits only objects and arrays. */
function isReasonable(input: JsonObject): boolean {
  const pending: { readonly value: Json; readonly depth: number }[] = [{ value: input, depth: 1 }];
  let values = 0;
  for (let current = pending.pop(); current !== undefined; current = pending.pop()) {
    const { value, depth } = current;
    if (depth > JSON_DEPTH_MAX) return false;
    const children: readonly Json[] = Array.isArray(value) ? value : Object.values(value as JsonObject);
    values += children.length;
    if (values > ARGUMENT_VALUES_MAX) return false;
    for (const child of children) {
      if (typeof child === 'object' && child !== null) pending.push({ value: child, depth: depth + 1 });
    }
  }
  return true;
}
