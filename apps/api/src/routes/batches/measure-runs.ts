import {
  compileMemory,
  compileMemoryMetadata,
  toolPolicyOf,
  countMedia,
  encodeDefinition,
  encodeRequest,
  estimateContentTokens,
  estimateTokens,
  IMAGE_TOKENS,
  isStoreCall,
  modelPrice,
  nextToolChoice,
  NO_MEDIA,
  NO_TRAIL,
  openingBytes,
  parseModelHandle,
  stepsMax,
  summaryMaxTokens,
  summaryMessage,
  toAlerts,
  toCustomId,
  toolUsageRules,
  utf8Length,
  windowMax,
  worstInputTokens,
  type ToolPolicy,
  type Definition,
  type EncodedDefinition,
  type MediaCount,
  type PriceTable,
  type RunGroup,
} from '@nightshift/agent-core';
import {
  distinctDefinitions,
  readAgentDefinitions,
  readBlocksOfAgents,
  readConversationSizes,
  readRunHistory,
  requestedDefinitions,
  type AgentDefinition,
  type ConversationSize,
  type Database,
  type RequestedDefinition,
  type NewRun,
} from '@nightshift/db';
import { refuseUnfit, refuseUnknownAgents, toError, type PlannableBatch } from '@nightshift/intake';
import { yieldEvery } from '../../yielding.ts';
import type { Context } from '../../context.ts';

/** Agents per read of memory. */
const AGENTS_PER_READ = 1_000;
/** Largest number of agents whose earlier runs are read; the others count as agents without history. */
const AGENTS_WITH_HISTORY = 1_000;
/** Placeholder as long as the name of any request. */
const CUSTOM_ID = toCustomId('n'.repeat(10), {
  run_id: '01890000-0000-7000-8000-000000000000',
  number: 1,
  attempt: 1,
});
/** Archive counts that requests show. Tags are not estimated. */
const COUNTS = compileMemoryMetadata({
  agent_id: '01890000-0000-7000-8000-000000000000',
  conversation_id: null,
  compiled_at: 0,
  messages: 100,
  passages: 100,
  tags: [],
});
const MESSAGE_FRAME_BYTES = '{"role":"","content":}'.length;

/** The shared part of the first requests of an agent's runs: a request without messages. */
interface Frame {
  readonly agent: AgentDefinition;
  readonly bytes: number;
  readonly history: Shown;
}

/** The messages in a request. */
interface Shown {
  readonly messages: number;
  readonly bytes: number;
  readonly media: MediaCount;
}

const NOTHING_SHOWN: Shown = { messages: 0, bytes: 0, media: NO_MEDIA };

/**
 * Measures the first requests of runs that are not stored, with the present agents and conversations.
 * Returns: a group for each agent, step limit and cap.
 * Throws: as accepting the batch would, for an unknown agent or an impossible first call.
 */
export async function measureRuns(
  { db, projectId, prices }: Pick<Context, 'db' | 'projectId' | 'prices'>,
  batch: PlannableBatch,
): Promise<readonly RunGroup[]> {
  const { runs } = batch;
  const requested = requestedDefinitions(runs);
  const distinct = distinctDefinitions(requested);
  const frames = await readFrames(db, projectId, distinct);
  const unknown = refuseUnknownAgents(batch, requested, frames);
  if (unknown !== null) throw toError(unknown);
  const yieldIfDue = yieldEvery();
  const checked = new Set<string>();
  for (const [index, { key, added }] of requested.entries()) {
    const definition = frames.get(key)?.agent.definition;
    if (definition === undefined || checked.has(key)) continue;
    checked.add(key);
    if (definition.tool_rules.length === 0 && added.client_tools_json === null) continue;
    await yieldIfDue();
    const unfit = refuseUnfit(batch, index, definition);
    if (unfit !== null) throw toError(unfit);
  }
  const agentIds = [...new Set(runs.map((run) => run.agent_id))];
  const history = await readRunHistory(db, agentIds.slice(0, AGENTS_WITH_HISTORY));
  const places = new Map(distinct.map(({ key }, place) => [key, place]));
  const begun = new Set<string>();
  const groups = new Map<string, { -readonly [K in keyof RunGroup]: RunGroup[K] }>();
  for (const [ordinal, run] of runs.entries()) {
    await yieldIfDue();
    const definitionKey = requested[ordinal]?.key ?? '';
    const frame = frames.get(definitionKey);
    if (frame === undefined) continue;
    const { bytes, media, messages, tokens } = sizeOf(frame, run);
    const key = JSON.stringify([places.get(definitionKey), run.max_steps, run.cap]);
    const group = groups.get(key) ?? {
      ...emptyGroup(frame, run, prices),
      history: history.get(run.agent_id) ?? null,
    };
    group.runs += 1;
    group.request_bytes += bytes;
    group.input_tokens += tokens;
    // A later run of the same agent also shows the earlier run's messages.
    const waits = !run.isolated && begun.has(run.agent_id);
    if (!run.isolated) begun.add(run.agent_id);
    const { context_window_limit: window_tokens } = frame.agent.definition;
    const measured = { bytes, media, window_tokens };
    const worst = waits ? group.window_max : worstInputTokens(prices, group.model_name, measured);
    group.worst_input_tokens += worst;
    group.least_worst_input_tokens = Math.min(group.least_worst_input_tokens, worst);
    // A single message is never summarised.
    const { compaction } = frame.agent.definition;
    const summaries = compaction.mode === 'none' ? 0 : group.steps_max - (messages > 1 || waits ? 0 : 1);
    group.summaries_max = Math.max(group.summaries_max, summaries);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Reads the frames by requested definition. */
async function readFrames(
  db: Database,
  projectId: string,
  requested: readonly RequestedDefinition[],
): Promise<ReadonlyMap<string, Frame>> {
  const frames = new Map<string, Frame>();
  const prepared = new Map<string, Prepared>();
  for (let from = 0; from < requested.length; from += AGENTS_PER_READ) {
    const part = requested.slice(from, from + AGENTS_PER_READ);
    const agents = await readAgentDefinitions(db, projectId, part);
    const agentIds = [...new Set(part.map(({ agent_id }) => agent_id))];
    const blocks = Map.groupBy(await readBlocksOfAgents(db, agentIds), (block) => block.agent_id);
    const sizes = await readConversationSizes(
      db,
      [...agents.values()].map((agent) => agent.conversation_id),
    );
    for (const [definitionKey, agent] of agents) {
      const { definition } = agent;
      const { toolPolicy, encoded } = prepared.get(definition.id) ?? prepare(definition);
      prepared.set(definition.id, { toolPolicy, encoded });
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
        tool_choice: nextToolChoice(toolPolicy, NO_TRAIL),
      });
      const size = sizes.get(agent.conversation_id);
      frames.set(definitionKey, {
        agent,
        bytes: utf8Length(text),
        history: historyOf(size),
      });
    }
  }
  return frames;
}

function showsCounts({ tools }: Definition): boolean {
  return tools.some(({ kind, name }) => kind === 'memory' && isStoreCall(name));
}

/** Returns the earlier messages that a run in the agent's conversation shows. */
function historyOf(size: ConversationSize | undefined): Shown {
  if (size === undefined) return NOTHING_SHOWN;
  const { messages, bytes, summary, hidden, images, image_bytes, documents } = size;
  const media = { images, image_bytes, remote: documents };
  return summary === null
    ? { messages, bytes, media }
    : { messages: messages + 1, bytes: bytes + utf8Length(summaryMessage(summary, hidden ?? 0)), media };
}

interface Prepared {
  readonly toolPolicy: ToolPolicy;
  readonly encoded: EncodedDefinition;
}

function prepare(definition: Definition): Prepared {
  const toolPolicy = toolPolicyOf(definition);
  const instructions = [toolUsageRules(toolPolicy.rules), toolPolicy.result?.instructions ?? ''];
  return { toolPolicy, encoded: encodeDefinition({ ...definition, tools: toolPolicy.tools }, instructions) };
}

/** Measures a first request and estimates its prompt tokens. */
function sizeOf(frame: Frame, run: NewRun): Shown & { readonly tokens: number } {
  const earlier = run.isolated ? NOTHING_SHOWN : frame.history;
  const messages = earlier.messages + run.messages.length;
  const shown = run.messages.map(({ role, content }) =>
    role === 'system' ? { role: 'user', content: toAlerts(content) } : { role, content },
  );
  const opening = earlier.messages === 0 ? openingBytes(shown[0]?.role) : 0;
  const known = frame.bytes + opening + earlier.bytes + Math.max(0, messages - 1);
  let bytes = known;
  let tokens = estimateTokens(known - earlier.media.image_bytes) + earlier.media.images * IMAGE_TOKENS;
  for (const { role, content } of shown) {
    bytes += MESSAGE_FRAME_BYTES + role.length + utf8Length(JSON.stringify(content));
    tokens += estimateContentTokens(content);
  }
  const own = countMedia(run.messages.flatMap(({ content }) => content));
  const media = {
    images: own.images + earlier.media.images,
    image_bytes: own.image_bytes + earlier.media.image_bytes,
    remote: own.remote + earlier.media.remote,
  };
  return { messages, bytes, media, tokens };
}

function emptyGroup({ agent }: Frame, run: NewRun, prices: PriceTable): RunGroup {
  const { model, model_settings, tools, context_window_limit } = agent.definition;
  const model_name = parseModelHandle(model)?.name ?? model;
  const price = modelPrice(prices, model_name);
  const has_tools = tools.length > 0;
  return {
    model_name,
    runs: 0,
    request_bytes: 0,
    input_tokens: 0,
    worst_input_tokens: 0,
    least_worst_input_tokens: Infinity,
    max_tokens: Math.min(model_settings.max_output_tokens, price?.output_tokens_max ?? Infinity),
    steps_max: stepsMax({ max_steps: run.max_steps, has_tools }),
    summaries_max: 0,
    summary_tokens: Math.min(summaryMaxTokens(model_name, 0), price?.output_tokens_max ?? Infinity),
    window_tokens: Math.min(context_window_limit, price?.context_window ?? Infinity),
    window_max: price === null ? context_window_limit : windowMax(prices, model_name, context_window_limit),
    has_tools,
    cap: run.cap ?? { cost_nanousd: null, output_tokens: null },
    history: null,
  };
}
