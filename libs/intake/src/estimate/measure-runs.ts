import {
  countMedia,
  estimateContentTokens,
  estimateTokens,
  IMAGE_TOKENS,
  openingBytes,
  toAlerts,
  utf8Length,
  type PriceTable,
  type RunGroup,
} from '@nightshift/agent-core';
import {
  distinctDefinitions,
  readAgentDefinitions,
  readBlocksOfAgents,
  readConversationSizes,
  readPromptDensities,
  readTokenCalibrations,
  requestedDefinitions,
  type Database,
  type RequestedDefinition,
  type NewRun,
} from '@nightshift/db';
import { yieldEvery } from '@nightshift/services';
import { readNamedTools } from '../named-tools.ts';
import {
  refuseUnfit,
  refuseUnknownAgents,
  refuseUnknownTools,
  toError,
  type PlannableBatch,
} from '../plan-batch.ts';
import {
  HELD_MS_MAX,
  CALIBRATION_PRIOR,
  type Frame,
  type Shown,
  NOTHING_SHOWN,
  frameText,
  readWorkOf,
  historyOf,
  reservedTokens,
  emptyGroup,
} from './frame.ts';
import { prepareDefinition, type PreparedDefinition } from '../requests/prepare-definition.ts';

/** Agents per read of memory. */
const AGENTS_PER_READ = 1_000;
const MESSAGE_FRAME_BYTES = '{"role":"","content":}'.length;

/** What a measurement reads from. */
export interface Measuring {
  readonly db: Database;
  readonly projectId: string;
  readonly prices: PriceTable;
}

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
  const unknownTools = refuseUnknownTools(batch, await readNamedTools(db, projectId, runs));
  if (unknownTools !== null) throw toError(unknownTools);
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  const checked = new Set<string>();
  for (const [index, { key, added }] of requested.entries()) {
    const definition = frames.get(key)?.agent.definition;
    if (definition === undefined || checked.has(key)) continue;
    checked.add(key);
    if (
      definition.tool_rules.length === 0 &&
      definition.server_tools == null &&
      added.client_tools_json === null &&
      added.tool_choice_json === null
    )
      continue;
    await yieldIfDue();
    const unfit = refuseUnfit(batch, index, runs[index] ?? {}, definition);
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
  const prepared = new Map<string, PreparedDefinition>();
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
      const parts = prepared.get(definition.id) ?? prepareDefinition(definition);
      prepared.set(definition.id, parts);
      const text = frameText(
        definition,
        parts,
        (blocks.get(agent.agent_id) ?? []).map((block) => ({ ...block, block_id: block.id })),
      );
      const size = sizes.get(agent.conversation_id);
      const bytes = utf8Length(text);
      frames.set(key, {
        agent,
        bytes,
        dense_bytes: 2 * (bytes - text.length),
        history: historyOf(size),
        calibration: calibrations.get(parts.toolPolicy.model_name),
        density: densities.get(definition.id) ?? null,
        work: work.get(definition.id) ?? null,
      });
    }
  }
  return frames;
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
