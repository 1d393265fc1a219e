import type { Tool } from '@nightshift/client';
import { addEditFlags, changesOf, type EditFlags } from '../edit-record.ts';
import { renderFields } from '../fields.ts';
import { readJsonObject } from '../json-input.ts';
import { wholeNumber } from '../parse.ts';
import { removeRecord } from '../remove.ts';
import type { Define, Session } from '../session.ts';
import { plainOf } from '../table.ts';
import { take } from '../take.ts';
import { defineAttachments } from './tools/attachments.ts';

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
    .argument('<file>', 'JSON of the tool, or - for standard input')
    .action(run(create));
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

async function create({ client, out }: Session, _flags: object, file: string): Promise<undefined> {
  const tool = await client.tools.create(await readJsonObject(file));
  await out.record(tool, () => tool.id);
  out.note(`Made ${plainOf(tool.name)}. nightshift tools attach AGENT ${tool.id} gives it to an agent.`);
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
