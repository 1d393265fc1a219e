import {
  applicableWork,
  compileMemory,
  compileMemoryMetadata,
  definitionKey,
  encodeRequest,
  hasTools,
  inputTokensToReserve,
  isStoreCall,
  modelPrice,
  nextToolChoice,
  NO_MEDIA,
  NO_TRAIL,
  parseModelHandle,
  stepsMax,
  summaryMaxTokens,
  summaryMessage,
  toCustomId,
  thinkingBudget,
  utf8Length,
  windowMax,
  workClassKey,
  workKindOf,
  type BlockView,
  type Definition,
  type MediaCount,
  type PriceTable,
  reliableBytesPerToken,
  type PromptDensity,
  type RunGroup,
  type TokenCalibration,
  type WorkStatistics,
} from '@nightshift/agent-core';
import {
  readWorkStatistics,
  type AgentDefinition,
  type ConversationSize,
  type Database,
  type NewRun,
} from '@nightshift/db';
import { MAX_STEPS_DEFAULT } from '../request.ts';
import type { PreparedDefinition } from '../requests/prepare-definition.ts';

/** Longest time that a measurement may hold the thread. Unit: milliseconds. */
export const HELD_MS_MAX = 20;
/** Bytes of request JSON per token before any sample: four, as in English prose. */
export const CALIBRATION_PRIOR: TokenCalibration = { bytes_per_token: 4, samples: 0 };
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

/** The shared part of the first requests of an agent's runs: a request without messages. */
export interface Frame {
  readonly agent: Pick<AgentDefinition, 'definition'>;
  readonly bytes: number;
  /** Bytes of characters outside ASCII, at most. */
  readonly dense_bytes: number;
  readonly history: Shown;
  readonly calibration: TokenCalibration | undefined;
  readonly density: PromptDensity | null;
  readonly work: WorkStatistics | null;
}

/** The messages in a request. */
export interface Shown {
  readonly messages: number;
  readonly bytes: number;
  readonly media: MediaCount;
}

export const NOTHING_SHOWN: Shown = { messages: 0, bytes: 0, media: NO_MEDIA };

/** Returns a request of an agent without messages. */
export function frameText(
  definition: Definition,
  { toolPolicy, encoded, memory_form }: PreparedDefinition,
  blocks: readonly BlockView[],
): string {
  const memory = compileMemory(blocks, memory_form);
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
export function historyOf(size: ConversationSize | undefined): Shown {
  if (size === undefined) return NOTHING_SHOWN;
  const { messages, bytes, summary, hidden, images, image_bytes, documents } = size;
  const media = { images, image_bytes, remote: documents };
  return summary === null
    ? { messages, bytes, media }
    : { messages: messages + 1, bytes: bytes + utf8Length(summaryMessage(summary, hidden ?? 0)), media };
}

/** Returns the tokens that a cap reserves for a prompt. */
export function reservedTokens(
  prices: PriceTable,
  { agent: { definition }, density }: Pick<Frame, 'agent' | 'density'>,
  size: Pick<Shown, 'bytes' | 'media'> & { readonly dense_bytes: number },
): number {
  const name = parseModelHandle(definition.model)?.name ?? definition.model;
  const measured = {
    ...size,
    window_tokens: definition.context_window_limit,
    has_tools: hasTools(definition),
  };
  return inputTokensToReserve(prices, name, measured, reliableBytesPerToken(density));
}

/** Creates a group without runs. */
export function emptyGroup(
  { agent, work }: Pick<Frame, 'agent' | 'work'>,
  run: Pick<NewRun, 'max_steps' | 'cap'>,
  prices: PriceTable,
): { -readonly [K in keyof RunGroup]: RunGroup[K] } {
  const { model, model_settings, server_tools, context_window_limit } = agent.definition;
  const model_name = parseModelHandle(model)?.name ?? model;
  const price = modelPrice(prices, model_name);
  return {
    model_name,
    runs: 0,
    request_bytes: 0,
    input_tokens: 0,
    worst_input_tokens: 0,
    least_worst_input_tokens: Infinity,
    max_tokens: Math.min(model_settings.max_output_tokens, price?.output_tokens_max ?? Infinity),
    thinking_tokens: thinkingBudget(model_settings),
    steps_max: stepsMax({ max_steps: run.max_steps, has_tools: hasTools(agent.definition) }),
    summaries_max: 0,
    summary_tokens: Math.min(summaryMaxTokens(model_name, 0), price?.output_tokens_max ?? Infinity),
    window_tokens: Math.min(context_window_limit, price?.context_window ?? Infinity),
    window_max: price === null ? context_window_limit : windowMax(prices, model_name, context_window_limit),
    kind: workKindOf(agent.definition),
    server_tools: server_tools ?? [],
    has_own_max_steps: run.max_steps !== MAX_STEPS_DEFAULT,
    cap: run.cap ?? { cost_nanousd: null, output_tokens: null },
    work,
  };
}
