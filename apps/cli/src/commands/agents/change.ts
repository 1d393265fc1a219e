import type { AgentCreate, AgentState } from '@nightshift/client';
import { addEditFlags, changesOf, type EditFlags } from '../../edit-record.ts';
import { CommandError } from '../../failure.ts';
import { readJsonObject, type JsonObject } from '../../json-input.ts';
import { gather } from '../../parse.ts';
import { removeRecord } from '../../remove.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';

interface CreateFlags {
  readonly name?: string;
  readonly model?: string;
  readonly system?: string;
  readonly tag?: readonly string[];
  readonly tool?: readonly string[];
  readonly block?: readonly string[];
}

/** Adds `create`, `edit` and `delete`. */
export const defineChange: Define = (command, run) => {
  command
    .command('create')
    .description('make an agent')
    .argument('[file]', 'JSON of the agent, or - for standard input; flags win')
    .option('--name <text>', 'name')
    .option('--model <model>', 'model, such as anthropic/claude-haiku-4-5')
    .option('--system <text>', 'system prompt')
    .option('--tag <tag>', 'tag; may be repeated', gather)
    .option('--tool <name>', 'tool; may be repeated', gather)
    .option('--block <label=value>', 'memory block; may be repeated', gather)
    .action(run<CreateFlags>(create));
  addEditFlags(command.command('edit').description('change an agent'), 'agent').action(run<EditFlags>(edit));
  command
    .command('delete')
    .description('delete an agent')
    .argument('<agent>', 'id of the agent')
    .action(run(remove));
};

async function create({ client, out }: Session, flags: CreateFlags, file?: string): Promise<undefined> {
  const body = { ...(file === undefined ? {} : await readJsonObject(file)), ...bodyOf(flags) };
  if (Object.keys(body).length === 0)
    throw new CommandError(
      'There is nothing to make an agent of. Name a JSON file, or add --name and --model.',
    );
  const agent = await client.agents.create(body);
  await out.record(agent, () => agent.id);
  out.note(`Made ${plainOf(agent.name)}. nightshift agents append ${agent.id} TEXT tells it something.`);
}

function bodyOf({ name, model, system, tag, tool, block }: CreateFlags): AgentCreate {
  return {
    ...(name !== undefined && { name }),
    ...(model !== undefined && { model }),
    ...(system !== undefined && { system }),
    ...(tag !== undefined && { tags: [...tag] }),
    ...(tool !== undefined && { tools: [...tool] }),
    ...(block !== undefined && { memory_blocks: block.map(blockOf) }),
  };
}

function blockOf(text: string): { readonly label: string; readonly value: string } {
  const mark = text.indexOf('=');
  if (mark < 1) throw new CommandError(`'${text}' is no block. Write label=value, as in human='Name: Ann'.`);
  return { label: text.slice(0, mark), value: text.slice(mark + 1) };
}

/** Fields that can be changed. A change of `block_ids` or `tool_ids` attaches and detaches. */
function editableOf(agent: AgentState): JsonObject {
  return {
    name: agent.name,
    description: agent.description,
    model: agent.model,
    system: agent.system,
    tags: agent.tags,
    timezone: agent.timezone,
    metadata: agent.metadata,
    model_settings: agent.model_settings,
    response_format: agent.response_format,
    compaction_settings: agent.compaction_settings,
    tool_rules: agent.tool_rules,
    tool_ids: agent.tools.map(({ id }) => id),
    block_ids: agent.blocks.map(({ id }) => id),
    message_buffer_autoclear: agent.message_buffer_autoclear,
    hidden: agent.hidden,
  };
}

async function edit(session: Session, flags: EditFlags, id: string, file?: string): Promise<undefined> {
  const { client, out } = session;
  const agent = await client.agents.retrieve(id);
  const editable = { id, fields: editableOf(agent), also: ['max_tokens', 'context_window_limit', 'secrets'] };
  const changes = await changesOf(session, editable, flags, file);
  if (changes === undefined) {
    await out.record(agent, () => `${id}  unchanged`);
    return;
  }
  const changed = await client.agents.update(id, changes);
  await out.record(changed, () => `${id}  ${Object.keys(changes).join(', ')}`);
  out.note('Batches that are accepted from now on use the change.');
}

function remove(session: Session, _flags: object, id: string): Promise<undefined> {
  return removeRecord(session, id, `Delete the agent ${id} for good?`, () =>
    session.client.agents.delete(id),
  );
}
