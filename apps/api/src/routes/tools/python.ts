import { NightshiftError, type JsonObject } from '@nightshift/agent-core';
import { SOURCE_BYTES_MAX } from '@nightshift/intake';
import type { PythonJail, SourceInspection, SourceProblem } from '@nightshift/python-jail';
import type { Context } from '../../context.ts';
import type { ToolInput } from '../../schemas/tool.ts';
import { refuse } from './refuse.ts';
import { asSchema, hasSchema, schemaOf, schemaPath } from './schema-of.ts';

/** A Python tool as its source describes it. */
export interface PythonTool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly source: string;
  readonly parameters: readonly string[];
}

/** Fields from which a schema is taken before the annotations. */
const OR_SCHEMA = 'or send json_schema with parameters';

/**
 * Reads a Python tool inside the jail; nothing of it is run. A schema of the caller goes before the annotations.
 * `named`: the name for the error, as far as it is known without the jail.
 * Throws: `invalid_argument` with the field and the line, or with what this server is missing.
 */
export async function readPython(
  openPython: Context['openPython'],
  named: string,
  input: ToolInput,
): Promise<PythonTool> {
  const { source_code: source } = input;
  if (source == null) throw refuse('/source_code', 'must be the code of the tool');
  const bytes = Buffer.byteLength(source);
  if (bytes > SOURCE_BYTES_MAX)
    throw refuse('/source_code', `has ${bytes} bytes; at most ${SOURCE_BYTES_MAX} are allowed`);
  const found = await inspect(openPython, named, source, input);
  if ('problem' in found) throw refuse('/source_code', told(found));
  const { name, description, schema_problem } = found;
  const parameters = found.parameters.map((parameter) => parameter.name);
  if (hasSchema(input)) {
    const input_schema = schemaOf(input);
    assertCallable(found.parameters, name, input_schema, schemaPath(input));
    return { name, description, input_schema, source, parameters };
  }
  if (schema_problem !== undefined)
    throw refuse('/source_code', `${told(schema_problem)}; annotate it, ${OR_SCHEMA}`);
  return { name, description, input_schema: asSchema(found.schema, '/source_code'), source, parameters };
}

async function inspect(
  openPython: Context['openPython'],
  named: string,
  source: string,
  { json_schema }: ToolInput,
): Promise<SourceInspection> {
  const wanted = json_schema?.['name'];
  try {
    const jail: PythonJail = await openPython();
    return await jail.inspect(source, typeof wanted === 'string' && wanted !== '' ? wanted : null);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new NightshiftError(
      'invalid_argument',
      `The tool '${named}' cannot be created: this server cannot run Python, because ${reason}. Send javascript, typescript ` +
        'or http, or ask the operator for the jail or for a module in the tools folder; GET /v1/tools/ lists all modules.',
      { fields: [{ path: '/source_code', message: 'is not run by this server' }] },
    );
  }
}

function told({ line, column, problem }: SourceProblem): string {
  return line === undefined ? problem : `line ${line}, column ${column ?? 1}: ${problem}`;
}

/** Throws: `invalid_argument` when the function cannot be called with arguments of the schema. */
function assertCallable(
  parameters: readonly { readonly name: string; readonly required: boolean }[],
  name: string,
  schema: JsonObject,
  path: string,
): void {
  const properties = Object.keys((schema['properties'] ?? {}) as object);
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const unknown = properties.find((property) => parameters.every((parameter) => parameter.name !== property));
  if (unknown !== undefined)
    throw refuse(path, `has the property ${unknown}, which is no parameter of ${name}`);
  const optional = parameters.find((parameter) => parameter.required && !required.includes(parameter.name));
  if (optional !== undefined)
    throw refuse(path, `must require ${optional.name}, which has no default in ${name}`);
}
