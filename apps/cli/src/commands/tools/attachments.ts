import { Argument } from 'commander';
import { CommandError } from '../../failure.ts';
import { parseJsonObject } from '../../json-input.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';

interface RunFlags {
  readonly args?: string;
}

/** Adds `of`, `attach`, `detach`, `run` and `approval`. */
export const defineAttachments: Define = (command, run) => {
  const AGENT = ['<agent>', 'id of the agent'] as const;
  const TOOL = ['<tool>', 'name or id of the tool'] as const;
  command
    .command('of')
    .description('list the tools of an agent')
    .argument(...AGENT)
    .action(run(listOfAgent));
  command
    .command('attach')
    .description('give a tool to an agent')
    .argument(...AGENT)
    .argument(...TOOL)
    .action(run(attach));
  command
    .command('detach')
    .description('take a tool from an agent')
    .argument(...AGENT)
    .argument(...TOOL)
    .action(run(detach));
  command
    .command('run')
    .description('try a tool of an agent: one call, outside any run')
    .argument(...AGENT)
    .argument('<tool>', 'name of the tool')
    .option('--args <json>', 'arguments of the call; default: none')
    .action(run<RunFlags>(tryTool));
  command
    .command('approval')
    .description("choose whether an agent's calls of a tool wait for approval")
    .argument(...AGENT)
    .argument('<tool>', 'name of the tool')
    .addArgument(new Argument('<state>', 'on: calls wait; off: they do not').choices(['on', 'off']))
    .action(run(approval));
};

async function listOfAgent({ client, out }: Session, _flags: object, agentId: string): Promise<undefined> {
  await out.list(client.agents.tools(agentId), {
    head: ['id', 'name', 'kind', 'description'],
    row: (tool) => [tool.id, tool.name, tool.kind, tool.description],
    empty: 'The agent has no tools. nightshift tools attach gives it some.',
  });
}

async function attach(session: Session, _flags: object, agentId: string, tool: string): Promise<undefined> {
  const toolId = await toolIdOf(session, tool);
  await session.client.agents.attachTool(agentId, toolId);
  await session.out.record({ agent_id: agentId, tool_id: toolId, attached: true }, () => `${tool}  attached`);
}

async function detach(session: Session, _flags: object, agentId: string, tool: string): Promise<undefined> {
  const toolId = await toolIdOf(session, tool);
  await session.client.agents.detachTool(agentId, toolId);
  await session.out.record(
    { agent_id: agentId, tool_id: toolId, attached: false },
    () => `${tool}  detached`,
  );
}

/** Exits with 1 if the tool failed. */
async function tryTool(
  { client, out }: Session,
  { args = '{}' }: RunFlags,
  agentId: string,
  tool: string,
): Promise<number> {
  const result = await client.agents.runTool(agentId, tool, { args: parseJsonObject(args, '--args') });
  await out.record(result, () => plainOf(result.func_return));
  const { status, stdout, stderr, duration_ms } = result;
  for (const text of [...stdout, ...stderr]) out.note(plainOf(text.trimEnd()));
  out.note(`${status === 'success' ? 'Succeeded' : 'Failed'} after ${duration_ms} ms.`);
  return status === 'success' ? 0 : 1;
}

async function approval(
  { client, out }: Session,
  _flags: object,
  agentId: string,
  tool: string,
  state: string,
): Promise<undefined> {
  const requires_approval = state === 'on';
  await client.agents.requireApproval(agentId, tool, requires_approval);
  await out.record(
    { agent_id: agentId, tool, requires_approval },
    () => `${tool}  approval ${requires_approval ? 'required' : 'not required'}`,
  );
}

async function toolIdOf({ client }: Session, tool: string): Promise<string> {
  if (tool.startsWith('tool-')) return tool;
  for await (const { id } of client.tools.list({ name: tool })) return id;
  throw new CommandError(`There is no tool ${tool}. nightshift tools ls lists them.`);
}
