import { checkInputSchema, isJsonObject, type JsonObject } from '@nightshift/agent-core';
import type { ToolInput } from '../../schemas/tool.ts';
import { refuse } from './refuse.ts';

/** Whether the caller has sent the schema of the arguments. */
export function hasSchema({ json_schema, args_json_schema }: ToolInput): boolean {
  return json_schema?.['parameters'] !== undefined || args_json_schema != null;
}

/** Returns the schema of the arguments as it was sent; without one, the tool takes none. Throws: `invalid_argument`. */
export function schemaOf({ json_schema, args_json_schema }: ToolInput): JsonObject {
  const named = json_schema?.['parameters'];
  const parameters: unknown = named ?? args_json_schema ?? { type: 'object', properties: {} };
  return asSchema(parameters, schemaPath({ json_schema, args_json_schema }));
}

/** Returns the field in which the caller has sent the schema of the arguments. */
export function schemaPath({ json_schema, args_json_schema }: ToolInput): string {
  const isNamed = json_schema?.['parameters'] !== undefined || args_json_schema == null;
  return isNamed ? '/json_schema/parameters' : '/args_json_schema';
}

/** Throws: `invalid_argument` for a schema that providers refuse. */
export function asSchema(value: unknown, path: string): JsonObject {
  const problem = checkInputSchema(value);
  if (problem !== null || !isJsonObject(value)) throw refuse(path, problem ?? 'must be an object');
  return value;
}
