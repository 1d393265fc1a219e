import {
  compileMemory,
  compileMemoryMetadata,
  conductOf,
  encodeDefinition,
  encodeRequest,
  estimateContentTokens,
  estimateTokens,
  isStoreCall,
  modelPrice,
  nextToolChoice,
  NO_TRAIL,
  parseModelHandle,
  summaryMessage,
  toCustomId,
  toolUsageRules,
  utf8Length,
  type Conduct,
  type Definition,
  type EncodedDefinition,
  type PriceTable,
  type RunGroup,
} from '@nightshift/agent-core';
import {
  assertAgentsExist,
  readAgentDefinitions,
  readBlocksOfAgents,
  readConversationSizes,
  readRunHistory,
  wishKey,
  wishOf,
  type AgentDefinition,
  type ConversationSize,
  type Database,
  type NewBatch,
  type NewRun,
} from '@nightshift/db';
import type { Context } from '../../context.ts';

/** Agents whose memory is read at a time. */
const AGENTS_PER_READ = 1_000;
/** Agents whose earlier runs are looked at; the others are taken to be like runs without history. */
const AGENTS_WITH_HISTORY = 1_000;
/** As long as every name of a request. */
const CUSTOM_ID = toCustomId('n'.repeat(10), {
  run_id: '01890000-0000-7000-8000-000000000000',
  number: 1,
  attempt: 1,
});
/** What requests of some agents say of their archive; its tags are not foreseen. */
const COUNTS = compileMemoryMetadata({
  agent_id: '01890000-0000-7000-8000-000000000000',
  conversation_id: null,
  sealed_at: 0,
  messages: 100,
  passages: 100,
  tags: [],
});
const MESSAGE_FRAME_BYTES = '{"role":"","content":}'.length;

/** A request of an agent without any message: what all first requests of its runs have in common. */
interface Frame {
  readonly agent: AgentDefinition;
  readonly bytes: number;
  readonly history_messages: number;
  readonly history_bytes: number;
}

/**
 * Measures the first requests of runs that are not there, as their agents and conversations stand now: one group for
 * each agent, step limit and cap. Stores nothing. Throws `not_found`, naming the request, for an agent that does not exist.
 */
export async function measureRuns(
  { db, projectId, prices }: Pick<Context, 'db' | 'projectId' | 'prices'>,
  batch: Pick<NewBatch, 'runs' | 'agent_path'>,
): Promise<readonly RunGroup[]> {
  const { runs } = batch;
  const frames = await readFrames(db, projectId, runs);
  assertAgentsExist(batch, frames);
  const agentIds = [...new Set(runs.map((run) => run.agent_id))];
  const history = await readRunHistory(db, agentIds.slice(0, AGENTS_WITH_HISTORY));
  const groups = new Map<string, { -readonly [K in keyof RunGroup]: RunGroup[K] }>();
  for (const run of runs) {
    const wish = wishKey(wishOf(run));
    const frame = frames.get(wish);
    if (frame === undefined) continue;
    const { request_bytes, input_tokens } = sizeOf(frame, run);
    const key = JSON.stringify([wish, run.max_steps, run.cap]);
    const group = groups.get(key) ?? {
      ...emptyGroup(frame, run, prices),
      history: history.get(run.agent_id) ?? null,
    };
    group.runs += 1;
    group.request_bytes += request_bytes;
    group.input_tokens += input_tokens;
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** By the wish of the run. */
async function readFrames(
  db: Database,
  projectId: string,
  runs: readonly NewRun[],
): Promise<ReadonlyMap<string, Frame>> {
  const wishes = [...new Map(runs.map(wishOf).map((wish) => [wishKey(wish), wish])).values()];
  const frames = new Map<string, Frame>();
  const prepared = new Map<string, Prepared>();
  for (let from = 0; from < wishes.length; from += AGENTS_PER_READ) {
    const some = wishes.slice(from, from + AGENTS_PER_READ);
    const agents = await readAgentDefinitions(db, projectId, some);
    const agentIds = [...new Set(some.map((wish) => wish.agent_id))];
    const blocks = Map.groupBy(await readBlocksOfAgents(db, agentIds), (block) => block.agent_id);
    const sizes = await readConversationSizes(
      db,
      [...agents.values()].map((agent) => agent.conversation_id),
    );
    for (const [wish, agent] of agents) {
      const { definition } = agent;
      const { conduct, encoded } = prepared.get(definition.id) ?? prepare(definition);
      prepared.set(definition.id, { conduct, encoded });
      const memory = compileMemory(
        (blocks.get(agent.agent_id) ?? []).map((block) => ({ ...block, block_id: block.id })),
        {
          agent_type: definition.agent_type,
          model_provider: parseModelHandle(definition.model)?.provider ?? '',
        },
      );
      const text = encodeRequest(CUSTOM_ID, encoded, {
        memory: showsCounts(definition) ? `${memory}\n\n${COUNTS}` : memory,
        messages_json: '[]',
        max_tokens: definition.model_settings.max_output_tokens,
        tool_choice: nextToolChoice(conduct, NO_TRAIL),
      });
      const size = sizes.get(agent.conversation_id);
      frames.set(wish, {
        agent,
        bytes: utf8Length(text),
        ...historyOf(size),
      });
    }
  }
  return frames;
}

function showsCounts({ tools }: Definition): boolean {
  return tools.some(({ kind, name }) => kind === 'memory' && isStoreCall(name));
}

/** The messages that a run in the agent's conversation shows before its own. */
function historyOf(size: ConversationSize | undefined): Pick<Frame, 'history_messages' | 'history_bytes'> {
  const { messages = 0, bytes = 0, summary = null, hidden = null } = size ?? {};
  return summary === null
    ? { history_messages: messages, history_bytes: bytes }
    : {
        history_messages: messages + 1,
        history_bytes: bytes + utf8Length(summaryMessage(summary, hidden ?? 0)),
      };
}

interface Prepared {
  readonly conduct: Conduct;
  readonly encoded: EncodedDefinition;
}

function prepare(definition: Definition): Prepared {
  const conduct = conductOf(definition);
  const instructions = [toolUsageRules(conduct.rules), conduct.result?.instructions ?? ''];
  return { conduct, encoded: encodeDefinition({ ...definition, tools: conduct.tools }, instructions) };
}

function sizeOf(
  frame: Frame,
  { messages, isolated }: NewRun,
): { readonly request_bytes: number; readonly input_tokens: number } {
  const earlier = isolated ? 0 : frame.history_messages;
  const known =
    frame.bytes + (isolated ? 0 : frame.history_bytes) + Math.max(0, earlier + messages.length - 1);
  let bytes = known;
  let tokens = estimateTokens(known);
  for (const { role, content } of messages) {
    bytes += MESSAGE_FRAME_BYTES + role.length + utf8Length(JSON.stringify(content));
    tokens += estimateContentTokens(content);
  }
  return { request_bytes: bytes, input_tokens: tokens };
}

function emptyGroup({ agent }: Frame, run: NewRun, prices: PriceTable): RunGroup {
  const { model, model_settings, tools } = agent.definition;
  const model_name = parseModelHandle(model)?.name ?? model;
  const price = modelPrice(prices, model_name);
  return {
    model_name,
    runs: 0,
    request_bytes: 0,
    input_tokens: 0,
    max_tokens: Math.min(model_settings.max_output_tokens, price?.output_tokens_max ?? Infinity),
    max_steps: run.max_steps,
    window_tokens: Math.min(agent.definition.context_window_limit, price?.context_window ?? Infinity),
    has_tools: tools.length > 0,
    cap: run.cap ?? { cost_nanousd: null, output_tokens: null },
    history: null,
  };
}
