import type { McpServerWithTools } from '@nightshift/client';
import { Option } from 'commander';
import { CommandError } from '../failure.ts';
import { renderFields } from '../fields.ts';
import { removeRecord } from '../remove.ts';
import type { Define, Session } from '../session.ts';

interface AddFlags {
  readonly token?: string;
  readonly authHeader?: string;
}

const SIDE_EFFECTS = ['none', 'idempotent', 'once'] as const;

interface ApproveFlags {
  readonly all?: boolean;
  readonly as?: string;
  readonly sideEffects?: (typeof SIDE_EFFECTS)[number];
}

type Tool = McpServerWithTools['tools'][number];

/** The commands of MCP servers. */
export const define: Define = (command, run) => {
  const SERVER = ['<server>', 'id of the server'] as const;
  command.command('ls').description('list the MCP servers').action(run(list));
  command
    .command('show')
    .description('show a server, its tools and how they differ from their approval')
    .argument(...SERVER)
    .action(run(show));
  command
    .command('add')
    .description('connect to a server and store it with its tools')
    .argument('<name>', 'name of the server')
    .argument('<url>', 'address of its streamable HTTP endpoint')
    .option('--token <text>', "value of the token's header, such as 'Bearer {{secrets.NAME}}'")
    .option('--auth-header <name>', "the token's header; Authorization by default")
    .action(run<AddFlags>(add));
  command
    .command('refresh')
    .description('read the tools of a server again')
    .argument(...SERVER)
    .action(run(refresh));
  command
    .command('approve')
    .description('approve a tool as the server offers it')
    .argument(...SERVER)
    .argument('[tool]', 'name of the tool on the server')
    .option('--all', 'all tools that wait for approval')
    .option('--as <name>', 'name that agents call the tool by')
    .addOption(
      new Option(
        '--side-effects <effect>',
        'whether an interrupted call may run again; once by default, which never does',
      ).choices(SIDE_EFFECTS),
    )
    .action(run<ApproveFlags>(approve));
  command
    .command('rm')
    .description('delete a server with its tools')
    .argument(...SERVER)
    .action(run(remove));
};

async function list({ client, out }: Session): Promise<undefined> {
  await out.list(await client.mcpServers.list(), {
    head: ['id', 'name', 'type', 'url', 'revision', 'refreshed'],
    row: (server) => [
      server.id,
      server.server_name,
      server.mcp_server_type,
      server.server_url,
      server.revision,
      server.refreshed_at,
    ],
    empty: 'There are no MCP servers. nightshift mcp-servers add NAME URL adds one.',
  });
}

async function show({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const server = await client.mcpServers.retrieve(id);
  await out.record(server, () => renderServer(server));
}

async function add(
  { client, out }: Session,
  { token, authHeader }: AddFlags,
  name: string,
  url: string,
): Promise<undefined> {
  const server = await client.mcpServers.create({
    server_name: name,
    config: {
      server_url: url,
      ...(token === undefined ? {} : { auth_token: token }),
      ...(authHeader === undefined ? {} : { auth_header: authHeader }),
    },
  });
  await out.record(server, () => renderServer(server));
  out.note(`nightshift mcp-servers approve ${server.id} TOOL lets agents have a tool.`);
}

async function refresh({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const server = await client.mcpServers.refresh(id);
  await out.record(server, () => renderServer(server));
}

async function approve(
  session: Session,
  { all = false, as, sideEffects }: ApproveFlags,
  id: string,
  name?: string,
): Promise<undefined> {
  const { client, out } = session;
  const server = await client.mcpServers.retrieve(id);
  const tools = all
    ? server.tools.filter(({ state }) => state === 'pending' || state === 'changed')
    : name === undefined
      ? []
      : [toolOf(server, name)];
  if (tools.length === 0) throw new CommandError('There is no tool to approve: name one, or pass --all.');
  if (as !== undefined && tools.length > 1) throw new CommandError('--as takes one tool.');
  const question = `${tools.map(renderTool).join('\n\n')}\n\nApprove ${tools.length === 1 ? 'this tool' : `these ${tools.length} tools`}?`;
  if (!(await session.confirm(question))) {
    out.note('Nothing was approved.');
    return;
  }
  const approved = await client.mcpServers.approve(id, {
    tools: tools.map(({ name, definition_sha256 }) => ({
      ...{ name, definition_sha256: definition_sha256 ?? '' },
      ...(as === undefined ? {} : { tool_name: as }),
      ...(sideEffects === undefined ? {} : { side_effects: sideEffects }),
    })),
  });
  await out.record(approved, () => renderServer(approved));
}

function remove(session: Session, _flags: object, id: string): Promise<undefined> {
  return removeRecord(session, id, `Delete the MCP server ${id}, and take its tools from every agent?`, () =>
    session.client.mcpServers.delete(id),
  );
}

function toolOf(server: McpServerWithTools, name: string): Tool {
  const tool = server.tools.find((each) => each.name === name && each.definition !== null);
  if (tool !== undefined) return tool;
  throw new CommandError(
    `The server offers no tool ${name}. nightshift mcp-servers show ${server.id} lists its tools.`,
  );
}

function renderServer(server: McpServerWithTools): string {
  const fields = renderFields([
    ['id', server.id],
    ['name', server.server_name],
    ['type', server.mcp_server_type],
    ['url', server.server_url],
    ['token', server.auth_token],
    ['revision', server.revision],
    ['refreshed', server.refreshed_at],
  ]);
  return [fields, ...server.tools.map(renderTool)].join('\n\n');
}

function renderTool(tool: Tool): string {
  return renderFields([
    ['tool', tool.name],
    ['state', tool.state],
    ['id', tool.tool_id],
    ['called', tool.tool_name],
    ['side effects', tool.side_effects],
    ['description', tool.definition?.['description']],
    ...(tool.unusable === null ? [] : [['unusable', tool.unusable] as const]),
    ...tool.differences.map(
      ({ path, approved, offered }) =>
        [
          'differs',
          `${path}: ${JSON.stringify(approved ?? null)} → ${JSON.stringify(offered ?? null)}`,
        ] as const,
    ),
  ]);
}
