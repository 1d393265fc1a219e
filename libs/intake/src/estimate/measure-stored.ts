import {
  estimateTokens,
  IMAGE_TOKENS,
  utf8Length,
  type Definition,
  type RunGroup,
  type TokenCalibration,
} from '@nightshift/agent-core';
import { readPromptDensities, type ConversationSize, type SizedBlock, type StoredRun } from '@nightshift/db';
import { yieldEvery } from '@nightshift/services';
import {
  HELD_MS_MAX,
  CALIBRATION_PRIOR,
  frameText,
  readWorkOf,
  historyOf,
  reservedTokens,
  emptyGroup,
} from './frame.ts';
import { prepareDefinition, type PreparedDefinition } from '../requests/prepare-definition.ts';
import type { Measuring } from './measure-runs.ts';

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
  const prepared = new Map<string, PreparedDefinition>();
  const blocksOf = Map.groupBy(blocks, (block) => block.agent_id);
  const groups = new Map<string, ReturnType<typeof emptyGroup>>();
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  for (const run of sample) {
    await yieldIfDue();
    const definition = byId.get(run.definition_id);
    if (definition === undefined) continue;
    const parts = prepared.get(definition.id) ?? prepareDefinition(definition);
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
