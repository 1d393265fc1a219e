import {
  fromMarkByte,
  mediaOf,
  NO_MARKS,
  paramsInParts,
  ruleTrailOf,
  toCustomId,
  type MediaCount,
  type PromptPart,
  type StepKey,
} from '@nightshift/agent-core';
import {
  readPastCalls,
  readPastRequest,
  readPastStalePrefix,
  readPastSubmission,
  readUnshownSeqs,
  type Database,
  type PastSubmission,
  type SealedRequest,
} from '@nightshift/db';
import { yieldEvery } from '@nightshift/services';
import { HELD_MS_MAX } from '../held.ts';
import { createDefinitionCache, type DefinitionCache } from './definition-cache.ts';
import { openEncoder } from './open-encoder.ts';
import { asSent } from './read-requests.ts';

/** Reasons why a rebuilt request may differ from the bytes that are sent. */
export const INEXACT_REASONS = [
  'not_sent',
  'cache_marks_not_kept',
  'conversation_reset',
  'labels_not_kept',
] as const;
export type InexactReason = (typeof INEXACT_REASONS)[number];

/** The request of a step, rebuilt from stored rows. */
export interface RebuiltRequest {
  /** JSON text of the `params` in parts. */
  readonly params: readonly string[];
  /** The provider's name of the model. */
  readonly model: string;
  /** Null while it waits to be sent. */
  readonly sent_at: Date | null;
  /** Empty if the request has the bytes that were sent. */
  readonly inexact_because: readonly InexactReason[];
  /** Bytes of the parts of its prompt. */
  readonly bytes: Readonly<Record<PromptPart, number>>;
  readonly media: MediaCount;
}

/** Rebuilds the request of a step; undefined without such a step. */
export async function rebuildRequest(db: Database, key: StepKey): Promise<RebuiltRequest | undefined> {
  const definitions = createDefinitionCache(1);
  const submission = await readPastSubmission(db, key);
  const unshown = await readUnshownSeqs(db, key);
  const sealed = await readPastRequest(db, key, unshown);
  if (submission === undefined || sealed === undefined) return undefined;
  const trailed = await withPastTrail(db, definitions, key, sealed);
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  const page = await asSent({ definitions }, db, [trailed], () => readPastStalePrefix(db, key, unshown));
  const { nonce, mark_byte, sent_at } = submission;
  const marks = sent_at === null || mark_byte === null ? NO_MARKS : fromMarkByte(mark_byte);
  const encode = await openEncoder({ definitions }, db, nonce, page, () => marks);
  await yieldIfDue();
  const { parts, prompt, made_by } = encode(page[0] ?? trailed);
  await yieldIfDue();
  return {
    params: paramsInParts(toCustomId(nonce, key), parts),
    model: made_by.toolPolicy.model_name,
    sent_at,
    inexact_because: inexactBecause(submission, sealed),
    bytes: {
      tools: Buffer.byteLength(prompt.tools),
      system: Buffer.byteLength(prompt.system),
      memory: Buffer.byteLength(prompt.memory),
      summary: Buffer.byteLength(prompt.summary),
      messages: Buffer.byteLength(prompt.messages),
    },
    media: mediaOf(prompt.messages),
  };
}

/** Returns the request with its run's trail at the time, as far as requests depend on it. The trail of the run has gone on. */
async function withPastTrail(
  db: Database,
  definitions: DefinitionCache,
  key: StepKey,
  request: SealedRequest,
): Promise<SealedRequest> {
  const { rules } = (await definitions.get(db, [request.definition_id])).get(request.definition_id)
    ?.toolPolicy ?? { rules: [] };
  if (rules.length === 0) return request;
  const calls = await readPastCalls(db, key);
  const trail = ruleTrailOf(rules, Map.groupBy(calls, ({ step_number }) => step_number).values());
  return { ...request, trail_json: JSON.stringify(trail) };
}

function inexactBecause(
  { sent_at, mark_byte, is_reset }: PastSubmission,
  { is_summary, metadata, block_ids, block_labels }: SealedRequest,
): readonly InexactReason[] {
  const applies: Readonly<Record<InexactReason, boolean>> = {
    not_sent: sent_at === null,
    cache_marks_not_kept: sent_at !== null && mark_byte === null && !is_summary,
    // The count of earlier messages in the prompt begins at the last reset.
    conversation_reset: metadata !== null && is_reset,
    labels_not_kept: block_ids !== null && block_labels === null,
  };
  return INEXACT_REASONS.filter((reason) => applies[reason]);
}
