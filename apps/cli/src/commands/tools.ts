import type { Tool } from '@nightshift/client';
import { addEditFlags, changesOf, type EditFlags } from '../edit-record.ts';
import { renderFields } from '../fields.ts';
import { CommandError } from '../failure.ts';
import { parseJsonObject, readJsonObject, readText, type JsonObject } from '../json-input.ts';
import { wholeNumber } from '../parse.ts';
import { removeRecord } from '../remove.ts';
import type { Define, Session } from '../session.ts';
import { plainOf } from '../table.ts';
import { take } from '../take.ts';
import { defineAttachments } from './tools/attachments.ts';

interface CreateFlags {
  readonly schema?: string;
}

interface ListFlags {
  readonly name?: string;
  readonly search?: string;
  readonly limit: number;
}

/** The commands of tools. */
export const define: Define = (command, run) => {
  command
    .command('ls')
    .description('list tools')
    .option('--name <name>', 'with exactly this name')
    .option('--search <text>', 'with this text in the name')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 100)
    .action(run<ListFlags>(list));
  command.command('show').description('show a tool').argument('<tool>', 'id of the tool').action(run(show));
  command
    .command('create')
    .description('make a tool')
    .argument('<file>', 'program in .ts, .js or .py, or JSON of the tool, or - for JSON on standard input')
    .option('--schema <json>', 'JSON Schema of a program, or a file with it: name, description, parameters')
    .action(run<CreateFlags>(create));
  addEditFlags(command.command('edit').description('change a tool'), 'tool').action(run<EditFlags>(edit));
  command
    .command('delete')
    .description('delete a tool and take it from every agent')
    .argument('<tool>', 'id of the tool')
    .action(run(remove));
  defineAttachments(command, run);
};

async function list({ client, out }: Session, { limit, ...query }: ListFlags): Promise<undefined> {
  await out.list(take(client.tools.list({ ...query, limit: Math.min(limit, 100) }), limit), {
    head: ['id', 'name', 'kind', 'side effects', 'approval', 'description'],
    row: (tool) => [
      tool.id,
      tool.name,
      tool.kind,
      tool.side_effects,
      tool.default_requires_approval ? 'required' : null,
      tool.description,
    ],
    empty: 'No such tools. Workers store the tools of their modules when they start.',
  });
}

async function show({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const tool = await client.tools.retrieve(id);
  await out.record(tool, () => renderTool(tool));
}

/** Renders a tool in fields. */
export function renderTool(tool: Tool): string {
  return renderFields([
    ['id', tool.id],
    ['name', tool.name],
    ['kind', tool.kind],
    ['type', tool.tool_type],
    ['side effects', tool.side_effects],
    ['approval', tool.default_requires_approval ? 'required' : 'not required'],
    ['result limit', `${tool.return_char_limit} characters`],
    ['tags', tool.tags],
    ['description', tool.description],
    ['schema', JSON.stringify(tool.json_schema, null, 2)],
    ['source', tool.source_code],
  ]);
}

async function create({ client, out }: Session, { schema }: CreateFlags, file: string): Promise<undefined> {
  const tool = await client.tools.create(await readTool(file, schema));
  await out.record(tool, () => tool.id);
  out.note(`Made ${plainOf(tool.name)}. nightshift tools attach AGENT ${tool.id} gives it to an agent.`);
}

/** Languages of programs by the end of their file's name. */
const LANGUAGES: Readonly<Record<string, string>> = {
  ...{ ts: 'typescript', mts: 'typescript', js: 'javascript', mjs: 'javascript', py: 'python' },
};

/** Reads the body of a new tool: JSON, or a program and its schema. */
async function readTool(file: string, schema: string | undefined): Promise<JsonObject> {
  const source_type = LANGUAGES[/\.([a-z]+)$/.exec(file)?.[1] ?? ''];
  if (source_type === undefined) {
    if (schema === undefined) return readJsonObject(file);
    throw new CommandError(
      '--schema is for a program in .ts, .js or .py; JSON holds its json_schema itself.',
    );
  }
  if (schema === undefined && source_type !== 'python')
    throw new CommandError(
      `${file} needs a schema. Add --schema '{"name": "…", "description": "…", "parameters": {"type": "object", …}}', or a file with it.`,
    );
  const source_code = await readText(file);
  return {
    source_type,
    source_code,
    ...(schema === undefined ? {} : { json_schema: await readSchema(schema) }),
  };
}

function readSchema(schema: string): Promise<JsonObject> | JsonObject {
  return schema.trimStart().startsWith('{') ? parseJsonObject(schema, '--schema') : readJsonObject(schema);
}

async function edit(session: Session, flags: EditFlags, id: string, file?: string): Promise<undefined> {
  const { client, out } = session;
  const tool = await client.tools.retrieve(id);
  const fields = {
    description: tool.description,
    tags: tool.tags,
    return_char_limit: tool.return_char_limit,
    default_requires_approval: tool.default_requires_approval,
    metadata_: tool.metadata_,
    json_schema: tool.json_schema,
    source_code: tool.source_code,
  };
  const changes = await changesOf(session, { id, fields }, flags, file);
  if (changes === undefined) {
    await out.record(tool, () => `${id}  unchanged`);
    return;
  }
  const changed = await client.tools.update(id, changes);
  await out.record(changed, () => `${id}  ${Object.keys(changes).join(', ')}`);
}

function remove(session: Session, _flags: object, id: string): Promise<undefined> {
  return removeRecord(session, id, `Delete the tool ${id}, and take it from every agent?`, () =>
    session.client.tools.delete(id),
  );
}
