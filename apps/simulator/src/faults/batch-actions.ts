import { z } from 'zod';
import { countsAtStart } from '../batch.ts';
import type { WireBatch } from '../batch.ts';
import { idFrom } from '../draws.ts';
import type { Fault } from './fault.ts';

const milliseconds = z.number().nonnegative();

/** Actions on how batches are shown, listed, timed and canceled. Times are on the simulator's clock. */
export const batchActions = [
  /** 404 until `ms` after the creation (or the end) of the batch. */
  z.strictObject({
    type: z.literal('notFoundFor'),
    ms: milliseconds,
    since: z.enum(['created', 'ended']).default('created'),
  }),
  /** An ended batch is shown in progress, as a stale replica would. */
  z.strictObject({ type: z.literal('regress') }),
  z.strictObject({
    type: z.literal('resultsUrl'),
    to: z.enum(['host', 'relative', 'null']),
    host: z.string().default('http://127.0.0.1:9'),
  }),
  /** No results URL until `ms` after the end. */
  z.strictObject({ type: z.literal('resultsUrlNullFor'), ms: milliseconds }),
  /** `request_counts` that do not add up. */
  z.strictObject({ type: z.literal('countsMismatch'), by: z.number().int().default(1) }),
  /** A new batch is listed `ms` after its creation. */
  z.strictObject({ type: z.literal('lag'), ms: milliseconds }),
  /** The list leaves out one batch, or the newest. */
  z.strictObject({
    type: z.literal('omit'),
    batch_id: z.string().optional(),
    batch_seq: z.number().int().optional(),
  }),
  z.strictObject({ type: z.literal('smallPages'), size: z.number().int().min(1) }),
  z.strictObject({ type: z.literal('hasMoreLies'), says: z.boolean() }),
  /** The page begins this many batches too late, or (negative) repeats as many of the page before. */
  z.strictObject({ type: z.literal('pageShift'), by: z.number().int() }),
  /** Batches of another application on the page, each of so many requests. */
  z.strictObject({
    type: z.literal('foreignBatches'),
    count: z.number().int().min(1).default(1),
    requests: z.number().int().min(1).default(1),
  }),
  /** On create: a proxy answers 504 and forwards the body `ms` later. */
  z.strictObject({ type: z.literal('commitLate'), ms: milliseconds }),
  /** On create: this batch takes so long, or never ends. */
  z.strictObject({ type: z.literal('latency'), ms: milliseconds }),
  z.strictObject({ type: z.literal('neverEnds') }),
  /** On create: this batch ends so much later than it would. */
  z.strictObject({ type: z.literal('lateEnd'), ms: milliseconds }),
  /** On create: somebody cancels this batch at the provider's console so much later. */
  z.strictObject({ type: z.literal('consoleCancel'), after_ms: milliseconds.default(0) }),
  /** On cancel: it takes so long, or changes nothing. */
  z.strictObject({ type: z.literal('cancelDelay'), ms: milliseconds }),
  z.strictObject({ type: z.literal('cancelIgnored') }),
] as const;

type BatchAction = z.output<(typeof batchActions)[number]>;

function foreignBatch(
  seed: string,
  at: number,
  requests: number,
  like: WireBatch | undefined,
  nowMs: number,
): WireBatch {
  const createdAt = like?.created_at ?? new Date(nowMs).toISOString();
  return {
    id: idFrom('msgbatch_01', 22, seed, 'foreign', at),
    type: 'message_batch',
    processing_status: 'in_progress',
    request_counts: countsAtStart(requests),
    created_at: createdAt,
    expires_at: new Date(Date.parse(createdAt) + 86_400_000).toISOString(),
    ended_at: null,
    cancel_initiated_at: null,
    archived_at: null,
    results_url: null,
  };
}

function resultsUrlOf(
  url: string | null,
  action: Extract<BatchAction, { type: 'resultsUrl' }>,
): string | null {
  if (url === null || action.to === 'null') return null;
  const { pathname } = new URL(url);
  return action.to === 'relative' ? pathname : action.host + pathname;
}

/** The stages of a batch action; undefined when the action is of another family. */
export function batchFault(action: { readonly type: string }, ruleId: string): Fault | undefined {
  const known = action as BatchAction;
  switch (known.type) {
    case 'commitLate':
      return { ruleId, arrivesAfterMs: known.ms };
    case 'notFoundFor':
      return {
        ruleId,
        hides: (batch, { nowMs }) => {
          const since = known.since === 'created' ? batch.created_at_ms : batch.ended_at_ms;
          return since !== null && nowMs < since + known.ms;
        },
      };
    case 'regress':
      return {
        ruleId,
        shown: (wire, batch) => ({
          ...wire,
          processing_status: 'in_progress',
          ended_at: null,
          results_url: null,
          request_counts: countsAtStart(batch.count),
        }),
      };
    case 'resultsUrl':
      return { ruleId, shown: (wire) => ({ ...wire, results_url: resultsUrlOf(wire.results_url, known) }) };
    case 'resultsUrlNullFor':
      return {
        ruleId,
        shown: (wire, batch, { nowMs }) =>
          nowMs < (batch.ended_at_ms ?? 0) + known.ms ? { ...wire, results_url: null } : wire,
      };
    case 'countsMismatch':
      return {
        ruleId,
        shown: (wire) => {
          const counts = wire.request_counts;
          return {
            ...wire,
            request_counts: { ...counts, succeeded: Math.max(0, counts.succeeded + known.by) },
          };
        },
      };
    case 'lag':
      return {
        ruleId,
        listed: (batches, { nowMs }) => batches.filter((batch) => nowMs >= batch.created_at_ms + known.ms),
      };
    case 'omit':
      return {
        ruleId,
        listed: (batches) => {
          const newest =
            known.batch_id === undefined && known.batch_seq === undefined ? batches.at(-1)?.seq : undefined;
          return batches.filter(
            ({ id, seq }) => id !== known.batch_id && seq !== known.batch_seq && seq !== newest,
          );
        },
      };
    case 'smallPages':
      return { ruleId, asked: (query) => ({ ...query, limit: Math.min(query.limit, known.size) }) };
    case 'hasMoreLies':
      return { ruleId, page: (page) => ({ ...page, has_more: known.says }) };
    case 'pageShift':
      return {
        ruleId,
        page: ({ batches, has_more }) => ({
          batches: known.by >= 0 ? batches.slice(known.by) : [...batches.slice(0, -known.by), ...batches],
          has_more,
        }),
      };
    case 'foreignBatches':
      return {
        ruleId,
        page: ({ batches, has_more }, { seed, nowMs }) => ({
          batches: [
            ...Array.from({ length: known.count }, (_, at) =>
              foreignBatch(seed, at, known.requests, batches[0], nowMs),
            ),
            ...batches,
          ],
          has_more,
        }),
      };
    case 'latency':
      return {
        ruleId,
        created: (batch) => {
          batch.ends_at_ms = batch.created_at_ms + known.ms;
        },
      };
    case 'neverEnds':
      return {
        ruleId,
        created: (batch) => {
          batch.ends_at_ms = Number.POSITIVE_INFINITY;
        },
      };
    case 'lateEnd':
      return {
        ruleId,
        created: (batch) => {
          batch.ends_at_ms += known.ms;
        },
      };
    case 'consoleCancel':
      return {
        ruleId,
        created: (batch) => {
          batch.console_cancel_at_ms = batch.created_at_ms + known.after_ms;
        },
      };
    case 'cancelDelay':
      return { ruleId, canceling: () => known.ms };
    case 'cancelIgnored':
      return { ruleId, canceling: () => 'ignore' };
    default:
      return undefined;
  }
}
