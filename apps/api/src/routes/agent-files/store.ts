import {
  checkRequiredTools,
  checkRulesFit,
  checkServerTools,
  FINISH_TOOL,
  NightshiftError,
  toWireId,
  type FieldError,
  type ToolRule,
} from '@nightshift/agent-core';
import {
  appendMessages,
  createAgents,
  createBlocks,
  findTools,
  putSecrets,
  readBlocks,
  registerMemoryTools,
  type NewAgent,
  type NewBlock,
  type ToolRow,
  type Tx,
} from '@nightshift/db';
import { LEFT_OUT_MAX, refuseLeftOut, type LeftOut } from '../../agent-files/left-out.ts';
import type { AgentPlan, BlockPlan, ImportPlan } from '../../agent-files/plan.ts';
import { errorBelow } from '../../agent-files/read-file.ts';
import type { Context } from '../../context.ts';
import type { ImportReport } from '../../schemas/agent-file.ts';
import { createUploadErrors, type UploadErrors } from '../../uploads/upload-errors.ts';
import { toNewBlock } from '../../wire/to-block.ts';
import { sealAgentSecrets, secretsOf } from '../agents/agent-secrets.ts';
import { responseFormatOf } from '../agents/echoed.ts';
import { rulesOf, toNewAgent, toolsOf } from '../agents/new-agent.ts';
import { isBuiltIn } from '../agents/tool-choice.ts';
import { toItem } from '../messages/append.ts';

/**
 * Stores all agents of a plan, with their blocks and messages. `strict` refuses a plan that leaves
 * something out.
 * Throws: `validation_failed` or `invalid_argument` with the wrong fields; nothing is stored then.
 */
export async function storeImport(
  context: Context,
  trx: Tx,
  plan: ImportPlan,
  strict: boolean,
): Promise<ImportReport> {
  const { projectId } = context;
  const errors = createUploadErrors();
  const stock = await readStock(trx, projectId, plan);
  const left_out = [...plan.left_out, ...missingTools(plan, stock)];
  const blocks = new Map(plan.blocks.map((block) => [block.key, toBlock(block, errors)]));
  const agents = plan.agents.map((agent) => {
    const tools = toolsFor(agent, stock, errors);
    const made = toAgent(context, agent, tools, stock, errors, left_out);
    const block_ids = blockIdsFor(agent, blocks, stock, errors);
    return { agent, made: made && { ...made, block_ids, tool_ids: tools.map(({ id }) => id) } };
  });
  errors.throwIfAny();
  if (strict) refuseLeftOut(left_out);
  await createBlocks(
    trx,
    projectId,
    [...blocks.values()].flatMap((block) => block ?? []),
  );
  const made = agents.flatMap((entry) => entry.made ?? []);
  await createAgents(trx, projectId, made);
  const secrets = agents.flatMap(({ agent: { input }, made: row }) =>
    row === null ? [] : sealAgentSecrets(context, row.id, secretsOf(input)),
  );
  await putSecrets(trx, secrets);
  const items = agents.flatMap(({ agent, made: row }) =>
    row === null || agent.messages.length === 0
      ? []
      : [
          toItem(
            {
              agent_id: row.id,
              messages: agent.messages.map(({ message }) => ({
                ...message,
                content: [...message.content],
              })),
            },
            agent.path,
          ),
        ],
  );
  if (items.length > 0) await appendMessages(trx, projectId, items);
  return {
    agent_ids: made.map(({ id }) => toWireId('agent', id)),
    left_out: left_out.slice(0, LEFT_OUT_MAX),
    left_out_total: left_out.length,
  };
}

/** Existing tools and blocks that a plan names. */
interface Stock {
  readonly byName: ReadonlyMap<string, ToolRow>;
  readonly byId: ReadonlyMap<string, ToolRow>;
  /** Labels of existing blocks, by id. */
  readonly labels: ReadonlyMap<string, string>;
}

async function readStock(trx: Tx, projectId: string, { agents, tools }: ImportPlan): Promise<Stock> {
  const requested = agents.map(({ input }) => toolsOf(input));
  const approved = agents.flatMap(({ input }) =>
    (input.tool_rules ?? [])
      .filter(({ type }) => type === 'requires_approval')
      .map(({ tool_name }) => tool_name),
  );
  const wanted = {
    names: [
      ...new Set([
        ...requested.flatMap(({ base, names }) => [...base, ...names]),
        ...tools.map(({ name }) => name),
        ...approved,
      ]),
    ],
    ids: [...new Set(requested.flatMap(({ ids }) => ids))],
  };
  let found = await findTools(trx, projectId, wanted);
  if (wanted.names.some((name) => isBuiltIn(name) && !found.some((tool) => tool.name === name))) {
    await registerMemoryTools(trx, projectId);
    found = await findTools(trx, projectId, wanted);
  }
  const blocks = await readBlocks(trx, projectId, [
    ...new Set(agents.flatMap(({ input }) => input.block_ids ?? [])),
  ]);
  return {
    byName: new Map(found.map((tool) => [tool.name, tool])),
    byId: new Map(found.map((tool) => [tool.id, tool])),
    labels: new Map(blocks.map(({ id, label }) => [id, label])),
  };
}

function missingTools({ tools }: ImportPlan, { byName }: Stock): readonly LeftOut[] {
  return tools.filter(({ name }) => !byName.has(name)).map(({ path, reason }) => ({ path, reason }));
}

function toBlock({ path, input, key }: BlockPlan, errors: UploadErrors): NewBlock | null {
  try {
    const block = toNewBlock(input, path);
    // A block with a place in a file has no default description.
    return key === path ? block : { ...block, description: input.description ?? null };
  } catch (error) {
    addError(errors, error, '');
    return null;
  }
}

/** Returns the tools of an agent in order, without duplicates. */
function toolsFor(
  { path, input, file_tools }: AgentPlan,
  stock: Stock,
  errors: UploadErrors,
): readonly ToolRow[] {
  const { base, names, ids } = toolsOf(input);
  for (const [index, name] of names.entries())
    if (!stock.byName.has(name))
      refuse(
        errors,
        `${path}/tools/${index}`,
        `there is no tool named '${name}'; GET /v1/tools/ lists all tools`,
      );
  for (const [index, id] of ids.entries())
    if (!stock.byId.has(id)) refuse(errors, `${path}/tool_ids/${index}`, `there is no tool tool-${id}`);
  const named = [...base, ...names, ...file_tools].map((name) => stock.byName.get(name));
  return [...new Set([...named, ...ids.map((id) => stock.byId.get(id))].flatMap((tool) => tool ?? []))];
}

/** Returns an agent without blocks and tools, or null with its errors. */
function toAgent(
  { prices }: Context,
  { path, input, file_tools }: AgentPlan,
  tools: readonly ToolRow[],
  stock: Stock,
  errors: UploadErrors,
  left_out: LeftOut[],
): NewAgent | null {
  const missing = new Set(file_tools.filter((name) => !stock.byName.has(name)));
  const tool_rules = (input.tool_rules ?? []).filter(({ tool_name }, index) => {
    if (!missing.has(tool_name)) return true;
    left_out.push({ path: `${path}/tool_rules/${index}`, reason: `its tool '${tool_name}' is left out` });
    return false;
  });
  const kept = { ...input, tool_rules };
  try {
    const agent = toNewAgent(kept, prices);
    const rules = rulesOf(kept, tools) as readonly ToolRule[];
    const misfits = [
      ...checkServerTools(agent.server_tools ?? [], tools, rules),
      ...misfitsOf(rules, tools, responseFormatOf(input), stock),
    ];
    for (const misfit of misfits) refuse(errors, `${path}${misfit.path}`, misfit.message);
    return { ...agent, tool_rules: rules };
  } catch (error) {
    addError(errors, error, path);
    return null;
  }
}

function misfitsOf(
  rules: readonly ToolRule[],
  tools: readonly ToolRow[],
  format: ReturnType<typeof responseFormatOf>,
  { byName }: Stock,
): readonly FieldError[] {
  const owed = format === null || format.type === 'text' ? null : FINISH_TOOL.name;
  const names = tools.map(({ name }) => name);
  const unprotected = rules.flatMap(({ type, tool_name }, index) =>
    type === 'requires_approval' && !byName.has(tool_name) && !isBuiltIn(tool_name)
      ? [
          {
            path: `/tool_rules/${index}/tool_name`,
            message: `there is no tool named '${tool_name}'; GET /v1/tools/ lists all tools`,
          },
        ]
      : [],
  );
  return rules.length === 0
    ? []
    : [...unprotected, ...checkRulesFit(rules, tools), ...checkRequiredTools(rules, names, owed)];
}

/** Returns the blocks of an agent in order: new blocks, and existing blocks. An agent has one block per label. */
function blockIdsFor(
  { path, input, blocks: planned }: AgentPlan,
  blocks: ReadonlyMap<string, NewBlock | null>,
  { labels }: Stock,
  errors: UploadErrors,
): readonly string[] {
  const places = new Map<string, string>();
  const ids = new Set<string>();
  const add = (id: string, label: string, at: string): void => {
    const first = places.get(label);
    if (first !== undefined && !ids.has(id))
      refuse(
        errors,
        at,
        `the label '${label}' is already used by ${first}; an agent has one block per label`,
      );
    else places.set(label, at);
    ids.add(id);
  };
  for (const { key, path: at } of planned) {
    const block = blocks.get(key);
    if (block != null) add(block.id, block.label, at);
  }
  for (const [index, id] of (input.block_ids ?? []).entries()) {
    const label = labels.get(id);
    const at = `${path}/block_ids/${index}`;
    if (label === undefined) refuse(errors, at, `there is no block block-${id}`);
    else add(id, label, at);
  }
  return [...ids];
}

function refuse(errors: UploadErrors, path: string, message: string): void {
  errors.add({ code: 'validation_failed', fields: [{ path, message }], total: 1 });
}

function addError(errors: UploadErrors, error: unknown, path: string): void {
  const placed = errorBelow(error, path);
  if (!(placed instanceof NightshiftError)) throw error;
  const { code, fields, fields_total } = placed;
  errors.add({ code, fields, total: fields_total });
}
