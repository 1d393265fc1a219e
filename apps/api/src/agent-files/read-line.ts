import { isDeepStrictEqual } from 'node:util';
import { agentLine } from '../schemas/agent-file.ts';
import { validateAt } from '../uploads/parse-line.ts';
import type { UploadErrors } from '../uploads/upload-errors.ts';
import { FILE_AGENTS_MAX } from './file-schema.ts';
import type { AgentPlan, BlockPlan, ImportPlan, ToolPlan } from './plan.ts';
import type { LeftOut } from './left-out.ts';
import { isAgentFile, NO_OPTIONS, readFile } from './read-file.ts';

/** Collects the plans of the lines of an upload. */
export interface LinePlans {
  /** Adds the value of a line: an agent, or an agent file. `path` is its place. */
  add(value: unknown, path: string): void;
  plan(): ImportPlan;
}

/** Opens the collection of an upload. Wrong fields are added to `errors`. */
export function collectLines(errors: UploadErrors): LinePlans {
  const agents: AgentPlan[] = [];
  const blocks = new Map<string, BlockPlan>();
  const tools: ToolPlan[] = [];
  const left_out: LeftOut[] = [];
  const refuse = (path: string, message: string): void =>
    errors.add({ code: 'validation_failed', fields: [{ path, message }], total: 1 });
  const share = (block: BlockPlan): void => {
    const first = blocks.get(block.key);
    if (first === undefined) blocks.set(block.key, block);
    else if (!isDeepStrictEqual(first.input, block.input))
      refuse(
        block.path,
        `differs from the block of the same id at ${first.path}: make them equal, or remove the id`,
      );
  };
  return {
    add: (value, path) => {
      const plan = isAgentFile(value) ? ofFile(value, path, errors) : ofAgent(value, path, errors);
      agents.push(...plan.agents);
      if (agents.length > FILE_AGENTS_MAX)
        refuse(path, `is more than the ${FILE_AGENTS_MAX.toLocaleString('en')} agents of an upload`);
      for (const block of plan.blocks) share(block);
      tools.push(...plan.tools);
      left_out.push(...plan.left_out);
    },
    plan: () => ({ agents, blocks: [...blocks.values()], tools, left_out }),
  };
}

/** The ids of a file mean nothing in other lines. */
function ofFile(value: unknown, path: string, errors: UploadErrors): ImportPlan {
  const plan = readFile(value, path, NO_OPTIONS, errors);
  const keyOf = (key: string): string => `${path}#${key}`;
  return {
    ...plan,
    blocks: plan.blocks.map((block) => ({ ...block, key: keyOf(block.key) })),
    agents: plan.agents.map((agent) => ({
      ...agent,
      blocks: agent.blocks.map((block) => ({ ...block, key: keyOf(block.key) })),
    })),
  };
}

function ofAgent(value: unknown, path: string, errors: UploadErrors): ImportPlan {
  const result = validateAt(agentLine, value, path);
  if ('errors' in result) {
    errors.add(result.errors);
    return { agents: [], blocks: [], tools: [], left_out: [] };
  }
  const { id: _, memory_blocks, ...input } = result.value;
  const blocks = (memory_blocks ?? []).map((block, index): BlockPlan => {
    const at = `${path}/memory_blocks/${index}`;
    return { path: at, key: typeof block.id === 'string' ? block.id : at, input: block };
  });
  const agent = { path, input, blocks: blocks.map(({ key, path: at }) => ({ key, path: at })) };
  return { agents: [{ ...agent, file_tools: [], messages: [] }], blocks, tools: [], left_out: [] };
}
