import {
  applicableWork,
  compileMemory,
  compileMemoryMetadata,
  toolPolicyOf,
  countMedia,
  definitionKey,
  encodeDefinition,
  encodeRequest,
  estimateContentTokens,
  estimateTokens,
  IMAGE_TOKENS,
  inputTokensToReserve,
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
  thinkingBudget,
  utf8Length,
  windowMax,
  workClassKey,
  workKindOf,
  type BlockView,
  type ToolPolicy,
  type Definition,
  type EncodedDefinition,
  type MediaCount,
  type PriceTable,
  reliableBytesPerToken,
  type PromptDensity,
  type RunGroup,
  type TokenCalibration,
  type WorkStatistics,
} from '@nightshift/agent-core';
import {
  distinctDefinitions,
  readAgentDefinitions,
  readBlocksOfAgents,
  readConversationSizes,
  readPromptDensities,
  readTokenCalibrations,
  readWorkStatistics,
  requestedDefinitions,
  type AgentDefinition,
  type ConversationSize,
  type Database,
  type RequestedDefinition,
  type NewRun,
  type SizedBlock,
  type StoredRun,
} from '@nightshift/db';
import { yieldEvery } from '@nightshift/services';
import { refuseUnfit, refuseUnknownAgents, toError, type PlannableBatch } from '../plan-batch.ts';
import { MAX_STEPS_DEFAULT } from '../request.ts';

/** Agents per read of memory. */
const AGENTS_PER_READ = 1_000;
/** Longest time that a measurement may hold the thread. Unit: milliseconds. */
const HELD_MS_MAX = 20;
/** Bytes of request JSON per token before any sample: four, as in English prose. */
const CALIBRATION_PRIOR: TokenCalibration = { bytes_per_token: 4, samples: 0 };
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
  readonly agent: Pick<AgentDefinition, 'definition'>;
  readonly bytes: number;
  /** Bytes of characters outside ASCII, at most. */
  readonly dense_bytes: number;
  readonly history: Shown;
  readonly calibration: TokenCalibration | undefined;
  readonly density: PromptDensity | null;
  readonly work: WorkStatistics | null;
}

/** What a measurement reads from. */
export interface Measuring {
  readonly db: Database;
  readonly projectId: string;
  readonly prices: PriceTable;
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
  { db, projectId, prices }: Measuring,
  batch: PlannableBatch,
): Promise<readonly RunGroup[]> {
  const { runs } = batch;
  const requested = requestedDefinitions(runs);
  const distinct = distinctDefinitions(requested);
  const frames = await readFrames(db, projectId, distinct);
  const unknown = refuseUnknownAgents(batch, requested, frames);
  if (unknown !== null) throw toError(unknown);
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
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
  const places = new Map(distinct.map(({ key }, place) => [key, place]));
  const begun = new Set<string>();
  const groups = new Map<string, ReturnType<typeof emptyGroup>>();
  for (const [ordinal, run] of runs.entries()) {
    await yieldIfDue();
    const definitionKey = requested[ordinal]?.key ?? '';
    const frame = frames.get(definitionKey);
    if (frame === undefined) continue;
    const { bytes, media, messages, tokens, dense_bytes, unread_bytes } = sizeOf(frame, run);
    const key = JSON.stringify([places.get(definitionKey), run.max_steps, run.cap]);
    const group = groups.get(key) ?? emptyGroup(frame, run, prices);
    group.runs += 1;
    group.request_bytes += bytes;
    group.input_tokens += tokens;
    // A later run of the same agent also shows the earlier run's messages.
    const waits = !run.isolated && begun.has(run.agent_id);
    if (!run.isolated) begun.add(run.agent_id);
    // Earlier messages are not read: they may be dense throughout, or nowhere.
    const reserved = (dense: number): number =>
      reservedTokens(prices, frame, { bytes, media, dense_bytes: dense_bytes + dense });
    group.worst_input_tokens += waits ? group.window_max : reserved(unread_bytes);
    group.least_worst_input_tokens = Math.min(group.least_worst_input_tokens, reserved(0));
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
  const calibrations = await readTokenCalibrations(db);
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
    const work = await readWorkOf(
      db,
      [...agents.values()].map((agent) => agent.definition),
    );
    const densities = await readPromptDensities(
      db,
      [...agents.values()].map((agent) => agent.definition.id),
    );
    for (const [key, agent] of agents) {
      const { definition } = agent;
      const { toolPolicy, encoded } = prepared.get(definition.id) ?? prepare(definition);
      prepared.set(definition.id, { toolPolicy, encoded });
      const text = frameText(
        definition,
        { toolPolicy, encoded },
        (blocks.get(agent.agent_id) ?? []).map((block) => ({ ...block, block_id: block.id })),
      );
      const size = sizes.get(agent.conversation_id);
      const bytes = utf8Length(text);
      frames.set(key, {
        agent,
        bytes,
        dense_bytes: 2 * (bytes - text.length),
        history: historyOf(size),
        calibration: calibrations.get(toolPolicy.model_name),
        density: densities.get(definition.id) ?? null,
        work: work.get(definition.id) ?? null,
      });
    }
  }
  return frames;
}

/** Returns a request of an agent without messages. */
function frameText(
  definition: Definition,
  { toolPolicy, encoded }: Prepared,
  blocks: readonly BlockView[],
): string {
  const memory = compileMemory(blocks, {
    agent_type: definition.agent_type,
    model_provider: parseModelHandle(definition.model)?.provider ?? '',
  });
  return encodeRequest(CUSTOM_ID, encoded, {
    memory: showsCounts(definition) ? `${memory}\n\n${COUNTS}` : memory,
    messages_json: '[]',
    max_tokens: definition.model_settings.max_output_tokens,
    tool_choice: nextToolChoice(toolPolicy, NO_TRAIL),
  });
}

/** Reads the statistics that apply to definitions, by their ids. */
export async function readWorkOf(
  db: Database,
  definitions: readonly Definition[],
): Promise<ReadonlyMap<string, WorkStatistics | null>> {
  const keys = definitions.map((each) => ({
    id: each.id,
    own: definitionKey(each.id),
    shared: workClassKey(each),
  }));
  const found = await readWorkStatistics(
    db,
    keys.flatMap(({ own, shared }) => [own, shared]),
  );
  return new Map(
    keys.map(({ id, own, shared }) => [
      id,
      applicableWork(found.get(own) ?? null, found.get(shared) ?? null).statistics,
    ]),
  );
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

/** Measures a first request and estimates its prompt tokens. `unread_bytes`: text of earlier messages. */
function sizeOf(
  frame: Frame,
  run: NewRun,
): Shown & { readonly tokens: number; readonly dense_bytes: number; readonly unread_bytes: number } {
  const earlier = run.isolated ? NOTHING_SHOWN : frame.history;
  const messages = earlier.messages + run.messages.length;
  const shown = run.messages.map(({ role, content }) =>
    role === 'system' ? { role: 'user', content: toAlerts(content) } : { role, content },
  );
  const opening = earlier.messages === 0 ? openingBytes(shown[0]?.role) : 0;
  const known = frame.bytes + opening + earlier.bytes + Math.max(0, messages - 1);
  let bytes = known;
  const calibration = frame.calibration ?? CALIBRATION_PRIOR;
  let { dense_bytes } = frame;
  let tokens =
    estimateTokens(known - earlier.media.image_bytes, calibration) + earlier.media.images * IMAGE_TOKENS;
  for (const { role, content } of shown) {
    const text = JSON.stringify(content);
    const own = utf8Length(text);
    bytes += MESSAGE_FRAME_BYTES + role.length + own;
    dense_bytes += 2 * (own - text.length);
    tokens += estimateContentTokens(content, calibration);
  }
  const own = countMedia(run.messages.flatMap(({ content }) => content));
  const media = {
    images: own.images + earlier.media.images,
    image_bytes: own.image_bytes + earlier.media.image_bytes,
    remote: own.remote + earlier.media.remote,
  };
  const unread_bytes = earlier.bytes - earlier.media.image_bytes;
  return { messages, bytes, media, tokens, dense_bytes, unread_bytes };
}

/** Returns the tokens that a cap reserves for a prompt. */
function reservedTokens(
  prices: PriceTable,
  { agent: { definition }, density }: Pick<Frame, 'agent' | 'density'>,
  size: Pick<Shown, 'bytes' | 'media'> & { readonly dense_bytes: number },
): number {
  const name = parseModelHandle(definition.model)?.name ?? definition.model;
  const measured = {
    ...size,
    window_tokens: definition.context_window_limit,
    has_tools: definition.tools.length > 0,
  };
  return inputTokensToReserve(prices, name, measured, reliableBytesPerToken(density));
}

/** Creates a group without runs. */
function emptyGroup(
  { agent, work }: Pick<Frame, 'agent' | 'work'>,
  run: Pick<NewRun, 'max_steps' | 'cap'>,
  prices: PriceTable,
): { -readonly [K in keyof RunGroup]: RunGroup[K] } {
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
    thinking_tokens: thinkingBudget(model_settings),
    steps_max: stepsMax({ max_steps: run.max_steps, has_tools }),
    summaries_max: 0,
    summary_tokens: Math.min(summaryMaxTokens(model_name, 0), price?.output_tokens_max ?? Infinity),
    window_tokens: Math.min(context_window_limit, price?.context_window ?? Infinity),
    window_max: price === null ? context_window_limit : windowMax(prices, model_name, context_window_limit),
    kind: workKindOf(agent.definition),
    has_own_max_steps: run.max_steps !== MAX_STEPS_DEFAULT,
    cap: run.cap ?? { cost_nanousd: null, output_tokens: null },
    work,
  };
}

/** Stored runs of a sample with all that their first requests show. */
export interface StoredFacts {
  readonly sample: readonly StoredRun[];
  /** Runs of the batch for each run of the sample. */
  readonly factor: number;
  readonly definitions: readonly Definition[];
  readonly blocks: readonly SizedBlock[];
  readonly sizes: ReadonlyMap<string, ConversationSize>;
  readonly calibrations: ReadonlyMap<string, TokenCalibration>;
}

/**
 * Measures the first requests of stored runs. Memory and messages are not read: reservations count them as plain text, so that a
 * cap with room is never refused.
 * Returns: a group for each definition, step limit and cap, scaled to the batch.
 */
export async function measureStored(
  { db, prices }: Pick<Measuring, 'db' | 'prices'>,
  { sample, factor, definitions, blocks, sizes, calibrations }: StoredFacts,
): Promise<readonly RunGroup[]> {
  const work = await readWorkOf(db, definitions);
  const densities = await readPromptDensities(
    db,
    definitions.map(({ id }) => id),
  );
  const byId = new Map(definitions.map((definition) => [definition.id, definition]));
  const prepared = new Map<string, Prepared>();
  const blocksOf = Map.groupBy(blocks, (block) => block.agent_id);
  const groups = new Map<string, ReturnType<typeof emptyGroup>>();
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  for (const run of sample) {
    await yieldIfDue();
    const definition = byId.get(run.definition_id);
    if (definition === undefined) continue;
    const parts = prepared.get(definition.id) ?? prepare(definition);
    prepared.set(definition.id, parts);
    const own = blocksOf.get(run.agent_id) ?? [];
    const text = frameText(
      definition,
      parts,
      own.map((block) => ({ ...block, value: '' })),
    );
    const memory = own.reduce((sum, block) => sum + block.bytes, 0);
    const shown = historyOf(sizes.get(run.conversation_id));
    const frameBytes = utf8Length(text);
    const bytes = frameBytes + memory + shown.bytes + run.queued_bytes;
    const images = shown.media.images + run.queued_images;
    const image_bytes = shown.media.image_bytes + run.queued_image_bytes;
    const calibration = calibrations.get(parts.toolPolicy.model_name);
    const agent = { definition };
    const key = JSON.stringify([definition.id, run.max_steps, run.cap]);
    const group =
      groups.get(key) ?? emptyGroup({ agent, work: work.get(definition.id) ?? null }, run, prices);
    const media = { images, image_bytes, remote: shown.media.remote };
    const size = { bytes, media, dense_bytes: 2 * (frameBytes - text.length) };
    const worst = reservedTokens(prices, { agent, density: densities.get(definition.id) ?? null }, size);
    group.runs += factor;
    group.request_bytes += factor * bytes;
    group.input_tokens +=
      factor *
      (estimateTokens(bytes - image_bytes, calibration ?? CALIBRATION_PRIOR) + images * IMAGE_TOKENS);
    group.worst_input_tokens += factor * worst;
    group.least_worst_input_tokens = Math.min(group.least_worst_input_tokens, worst);
    groups.set(key, group);
  }
  return [...groups.values()];
}
