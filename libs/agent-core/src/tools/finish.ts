import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { createSchemaCompiler, type CompiledSchema } from './schema-compiler.ts';

/** The built-in tool that ends a run and delivers its result. The request defines the result's schema. */
export const FINISH_TOOL: ToolDefinition = {
  name: 'finish',
  kind: 'finish',
  description: 'End the work and hand over its result. Call it once, when nothing else is left to do.',
  input_schema: finishSchema({ description: 'The result of the work.' }),
  side_effects: 'none',
  return_char_limit: 50_000,
  timeout_ms: 60_000,
  requires_approval: false,
};

/** Text for the model once its result is accepted. */
export const RESULT_TAKEN = 'The result is taken.';

/**
 * Returns the tools; `finish`, if among them, takes a result of this schema. `form` says where the schema's definitions
 * stand: `nested` for all schemas, `hoisted` for those that the provider enforces, since it finds them at the top only.
 */
export function withTypedFinish(
  tools: readonly ToolDefinition[],
  schema: JsonObject,
  form: 'nested' | 'hoisted',
): readonly ToolDefinition[] {
  const input_schema = form === 'nested' ? finishSchema(schema) : hoistedSchema(schema);
  return tools.map((tool) => (tool.kind === 'finish' ? { ...tool, input_schema } : tool));
}

/** Nests the result's schema: its references are lengthened, and its own `$id` would misdirect them. */
function finishSchema({ $id, ...schema }: JsonObject): JsonObject {
  const result = JSON.parse(
    JSON.stringify(schema, (key, part: Json) =>
      key === '$ref' && typeof part === 'string' ? part.replace(/^#/, '#/properties/result') : part,
    ),
  ) as JsonObject;
  return takingResult(result);
}

/** Nests the result's schema without its definitions. Fit for references to definitions only. */
function hoistedSchema({ $id, $defs, definitions, ...result }: JsonObject): JsonObject {
  return {
    ...takingResult(result),
    ...($defs === undefined ? {} : { $defs }),
    ...(definitions === undefined ? {} : { definitions }),
  };
}

function takingResult(result: JsonObject): JsonObject {
  return { type: 'object', properties: { result }, required: ['result'], additionalProperties: false };
}

let compile: ((schema: JsonObject) => CompiledSchema) | null = null;

/** Makes a check of results by a schema: returns the error as a sentence, or null. */
export function createResultCheck(schema: JsonObject): (result: Json) => string | null {
  compile ??= createSchemaCompiler();
  const compiled = compile(schema);
  return (result) => {
    if (!compiled.ok) return `the schema is not usable: ${compiled.message}`;
    try {
      const [error] = compiled.check(result);
      return error === undefined ? null : `${error.path} ${error.message}`.trim();
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
}

/** Checks the schema of a result: returns the error as a sentence, or null. */
export function checkResultSchema(schema: unknown): string | null {
  if (!isJsonObject(schema)) return 'The schema of a result must be an object.';
  compile ??= createSchemaCompiler();
  // Also nested two deeper, as `finish` takes it.
  const compiled = compile(finishSchema(schema));
  return compiled.ok ? null : `The schema is not usable: ${compiled.message}.`.slice(0, 1000);
}
