import type { AgentState, LettaMessage } from '@nightshift/client';
import { renderFields } from '../../fields.ts';
import { gather, wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';
import { take } from '../../take.ts';

interface ListFlags {
  readonly name?: string;
  readonly tag?: readonly string[];
  readonly limit: number;
}

interface MessagesFlags {
  readonly limit: number;
}

/** Largest page of the lists. */
const PAGE_MAX = 100;

/** Adds `ls`, `show` and `messages`. */
export const defineRead: Define = (command, run) => {
  command
    .command('ls')
    .description('list agents, latest first')
    .option('--name <text>', 'with this name')
    .option('--tag <tag>', 'with this tag; may be repeated: with all of them', gather)
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 50)
    .action(run<ListFlags>(list));
  command
    .command('show')
    .description('show an agent')
    .argument('<agent>', 'id of the agent')
    .action(run(show));
  command
    .command('messages')
    .description("show an agent's conversation, latest messages last")
    .argument('<agent>', 'id of the agent')
    .option('-n, --limit <count>', 'the last so many', wholeNumber(), 20)
    .action(run<MessagesFlags>(messages));
};

async function list({ client, out }: Session, { name, tag, limit }: ListFlags): Promise<undefined> {
  const agents = client.agents.list({
    limit: Math.min(limit, PAGE_MAX),
    ...(name !== undefined && { name }),
    ...(tag !== undefined && { tags: [...tag], match_all_tags: true }),
  });
  await out.list(take(agents, limit), {
    head: ['id', 'name', 'model', 'tags', 'blocks', 'created'],
    row: (agent) => [
      agent.id,
      agent.name,
      agent.model,
      agent.tags.join(', '),
      agent.blocks.map(({ label }) => label).join(', '),
      agent.created_at,
    ],
    empty: 'No agents. Make one with nightshift agents create --name NAME --model MODEL.',
  });
}

async function show({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const agent = await client.agents.retrieve(id);
  await out.record(agent, () => renderAgent(agent));
  out.note(`nightshift memory show ${id} shows its memory.`);
}

/** Renders an agent in fields. */
export function renderAgent(agent: AgentState): string {
  return renderFields([
    ['id', agent.id],
    ['name', agent.name],
    ['description', agent.description],
    ['model', agent.model],
    ['tags', agent.tags],
    ['time zone', agent.timezone],
    ['tools', agent.tools.map(({ name }) => name)],
    ['blocks', agent.blocks.map(({ label, value }) => `${label} (${value.length} characters)`)],
    ['messages', String(agent.message_ids.length)],
    ['last stop', agent.last_stop_reason],
    ['created', agent.created_at],
    ['updated', agent.updated_at],
    ['system', agent.system],
  ]);
}

async function messages({ client, out }: Session, { limit }: MessagesFlags, id: string): Promise<undefined> {
  const latest = await latestMessages(client, id, limit);
  if (latest.length === 0) out.note('No messages. nightshift agents append adds some.');
  for (const message of latest)
    await out.record(message, () => {
      const head = `${message.date}  ${message.message_type}${message.name === null ? '' : `  ${message.name}`}`;
      return `${out.paint('dim', plainOf(head))}\n${plainOf(textOf(message))}\n`;
    });
}

/** Reads the latest messages, oldest first, as the pages of the API are. A message may have several items. */
async function latestMessages(client: Session['client'], id: string, count: number): Promise<LettaMessage[]> {
  let latest: LettaMessage[] = [];
  for (let left = count; left > 0; left -= PAGE_MAX) {
    const answer = await client.request('GET', `/v1/agents/${id}/messages`, {
      query: { order: 'desc', limit: Math.min(left, PAGE_MAX), before: latest[0]?.id },
    });
    const page = (await answer.json()) as LettaMessage[];
    if (page.length === 0) break;
    latest = [...page, ...latest];
  }
  return latest;
}

function textOf(message: LettaMessage): string {
  switch (message.message_type) {
    case 'user_message':
      return typeof message.content === 'string'
        ? message.content
        : message.content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`)).join('\n');
    case 'system_message':
    case 'assistant_message':
      return message.content;
    case 'reasoning_message':
      return message.reasoning;
    case 'hidden_reasoning_message':
      return '(hidden)';
    case 'tool_call_message':
      return message.tool_calls.map(({ name, arguments: given }) => `${name} ${given}`).join('\n');
    case 'tool_return_message':
      return message.tool_returns
        .map(({ status, tool_return }) => `${status}: ${JSON.stringify(tool_return)}`)
        .join('\n');
  }
}
