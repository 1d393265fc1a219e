import { z } from 'zod';
import { countsAtStart } from '../batch.ts';
import type { WireBatch } from '../batch.ts';
import { idFrom } from '../draws.ts';
import type { Fault } from './fault.ts';

const milliseconds = z.number().nonnegative();

/** Actions on showing, listing, timing and cancelling batches. Times are ms of the simulator's clock. */
export const batchActions = [
  /** 404 until `ms` after the creation (or the end) of the batch. */
  z.strictObject({
    type: z.literal('notFoundFor'),
    ms: milliseconds,
    since: z.enum(['created', 'ended']).default('created'),
  }),
  /** Shows an ended batch as in progress, like a stale replica. */
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
  /** Lists a new batch only `ms` after its creation. */
  z.strictObject({ type: z.literal('lag'), ms: milliseconds }),
  /** Omits one batch, or the newest, from the list. */
  z.strictObject({
    type: z.literal('omit'),
    batch_id: z.string().optional(),
    batch_seq: z.number().int().optional(),
  }),
  z.strictObject({ type: z.literal('smallPages'), size: z.number().int().min(1) }),
  z.strictObject({ type: z.literal('hasMoreLies'), says: z.boolean() }),
  /** Starts the page this many batches too late, or (negative) repeats as many of the page before. */
  z.strictObject({ type: z.literal('pageShift'), by: z.number().int() }),
  /** Adds batches of another application to the page, each with this many requests. */
  z.strictObject({
    type: z.literal('foreignBatches'),
    count: z.number().int().min(1).default(1),
    requests: z.number().int().min(1).default(1),
  }),
  /** On create: answers 504 as a proxy, which forwards the body `ms` later. */
  z.strictObject({ type: z.literal('commitLate'), ms: milliseconds }),
  /** On create: sets the batch's latency, or makes it never end. */
  z.strictObject({ type: z.literal('latency'), ms: milliseconds }),
  z.strictObject({ type: z.literal('neverEnds') }),
  /** On create: delays the end of the batch. */
  z.strictObject({ type: z.literal('lateEnd'), ms: milliseconds }),
  /** On create: cancels the batch at the provider's console after this delay. */
  z.strictObject({ type: z.literal('consoleCancel'), after_ms: milliseconds.default(0) }),
  /** On cancel: sets its duration, or ignores it. */
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

type Stages = Omit<Fault, 'ruleId'>;

const STAGES: { readonly [T in BatchAction['type']]: (action: Extract<BatchAction, { type: T }>) => Stages } =
  {
    notFoundFor: ({ since, ms }) => ({
      hides: (batch, { nowMs }) => {
        const from = since === 'created' ? batch.created_at_ms : batch.ended_at_ms;
        return from !== null && nowMs < from + ms;
      },
    }),
    regress: () => ({
      shown: (wire, batch) => ({
        ...wire,
        processing_status: 'in_progress',
        ended_at: null,
        results_url: null,
        request_counts: countsAtStart(batch.count),
      }),
    }),
    resultsUrl: (action) => ({
      shown: (wire) => ({ ...wire, results_url: resultsUrlOf(wire.results_url, action) }),
    }),
    resultsUrlNullFor: ({ ms }) => ({
      shown: (wire, batch, { nowMs }) =>
        nowMs < (batch.ended_at_ms ?? 0) + ms ? { ...wire, results_url: null } : wire,
    }),
    countsMismatch: ({ by }) => ({
      shown: (wire) => {
        const { succeeded } = wire.request_counts;
        return {
          ...wire,
          request_counts: { ...wire.request_counts, succeeded: Math.max(0, succeeded + by) },
        };
      },
    }),
    lag: ({ ms }) => ({
      listed: (batches, { nowMs }) => batches.filter((batch) => nowMs >= batch.created_at_ms + ms),
    }),
    omit: ({ batch_id, batch_seq }) => ({
      listed: (batches) => {
        const newest = batch_id === undefined && batch_seq === undefined ? batches.at(-1)?.seq : undefined;
        return batches.filter(({ id, seq }) => id !== batch_id && seq !== batch_seq && seq !== newest);
      },
    }),
    smallPages: ({ size }) => ({ asked: (query) => ({ ...query, limit: Math.min(query.limit, size) }) }),
    hasMoreLies: ({ says }) => ({ page: (page) => ({ ...page, has_more: says }) }),
    pageShift: ({ by }) => ({
      page: ({ batches, has_more }) => ({
        batches: by >= 0 ? batches.slice(by) : [...batches.slice(0, -by), ...batches],
        has_more,
      }),
    }),
    foreignBatches: ({ count, requests }) => ({
      page: ({ batches, has_more }, { seed, nowMs }) => {
        const foreign = Array.from({ length: count }, (_, at) =>
          foreignBatch(seed, at, requests, batches[0], nowMs),
        );
        return { batches: [...foreign, ...batches], has_more };
      },
    }),
    latency: ({ ms }) => ({ created: (batch) => void (batch.ends_at_ms = batch.created_at_ms + ms) }),
    neverEnds: () => ({ created: (batch) => void (batch.ends_at_ms = Number.POSITIVE_INFINITY) }),
    lateEnd: ({ ms }) => ({ created: (batch) => void (batch.ends_at_ms += ms) }),
    cancelDelay: ({ ms }) => ({ canceling: () => ms }),
    cancelIgnored: () => ({ canceling: () => 'ignore' }),
    commitLate: ({ ms }) => ({ arrivesAfterMs: ms }),
    consoleCancel: ({ after_ms }) => ({
      created: (batch) => void (batch.console_cancel_at_ms = batch.created_at_ms + after_ms),
    }),
  };

/** Returns the stages of a batch action; undefined for another family. */
export function batchFault(action: { readonly type: string }, ruleId: string): Fault | undefined {
  const stages = STAGES[action.type as BatchAction['type']] as ((action: object) => Stages) | undefined;
  return stages === undefined ? undefined : { ruleId, ...stages(action) };
}
