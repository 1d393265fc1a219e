import {
  fitRequest,
  hasTools,
  isTight,
  modelPrice,
  modelTraits,
  PROMPT_SAMPLES_MIN,
  summaryLimits,
  summaryMaxTokens,
  summaryMessage,
  thinkingBudget,
  TOKEN_CALIBRATION_DEFAULT,
  utf8Length,
  type CacheMarks,
  type ContentBlock,
  type ContextLimits,
  type Definition,
  type FitVerdict,
  type PriceTable,
  type StepKey,
  type StepOutcome,
  type TokenCalibration,
  type Trail,
} from '@nightshift/agent-core';
import {
  commitStepsFitted,
  holdLease,
  inTransaction,
  lockRuns,
  readShownSeqs,
  type FittedStep,
  type Lease,
  type SealedRequest,
  type TokenSample,
} from '@nightshift/db';
import type { FlowDeps } from '../deps.ts';

/** A request of a page with the size of its JSON in UTF-8. */
export interface SizedRequest {
  readonly request: SealedRequest;
  readonly definition: Definition;
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly bytes: number;
  readonly images: number;
}

/** A request of a page with its JSON in UTF-8, and the cache marks in it. */
export interface EncodedRequest extends SizedRequest {
  readonly body: Buffer;
  readonly marks: CacheMarks;
}

/** Token calibrations by the provider's model names. */
export type Calibrations = ReadonlyMap<string, TokenCalibration>;

/** A request that is not sent: it cannot be built or decided, or cannot be made to fit its window. */
export interface UnsendableRequest {
  readonly key: StepKey;
  readonly outcome: Extract<StepOutcome, { kind: 'poison' | 'unfit' }>;
  /** For the log. */
  readonly reason: string;
}

const calibrationOf = (calibrations: Calibrations, { model_name }: SizedRequest): TokenCalibration =>
  calibrations.get(model_name) ?? TOKEN_CALIBRATION_DEFAULT;

const limitsOf = ({ context_window_limit, compaction }: Definition): ContextLimits => ({
  window_tokens: context_window_limit,
  compaction,
});

/** Whether a request may exceed its window. A request for a summary never does: it is built to fit. */
export function mayNotFit(sized: SizedRequest, calibrations: Calibrations): boolean {
  const { request, definition, bytes, images } = sized;
  if (request.is_summary) return false;
  if (isRefused(request)) return true;
  const size = {
    bytes,
    images,
    has_tools: hasTools(definition),
    messages_max: request.messages_max,
    max_tokens: request.max_tokens,
  };
  return isTight(size, limitsOf(definition), calibrationOf(calibrations, sized));
}

/** The provider has refused the prompt as too long. */
function isRefused({ trail_json }: SealedRequest): boolean {
  if (trail_json?.includes('"too_long"') !== true) return false;
  return (JSON.parse(trail_json) as Trail).too_long === 'refused';
}

/**
 * Decides tight requests message by message and writes the changes to their steps under the provider batch's lease.
 * A step gets a shorter answer, or a request for a summary. Returns the requests that cannot be made to fit or cannot be
 * decided, which harm no other.
 */
export async function fitRequests(
  deps: FlowDeps,
  providerBatchId: string,
  lease: Lease,
  tight: readonly SizedRequest[],
  calibrations: Calibrations,
): Promise<readonly UnsendableRequest[]> {
  const { db, hooks, settings } = deps;
  const seqs = await readShownSeqs(
    db,
    providerBatchId,
    tight.map(({ request }) => request.ordinal),
  );
  const fitted: FittedStep[] = [];
  const unsendable: UnsendableRequest[] = [];
  for (const sized of tight) {
    const { run_id, number, attempt, max_tokens, ordinal, reserved_output_tokens } = sized.request;
    const key = { run_id, number, attempt };
    let verdict: FitVerdict;
    try {
      verdict = judge(sized, seqs.get(ordinal) ?? [], calibrationOf(calibrations, sized));
    } catch (error) {
      unsendable.push(poisonous(key, error));
      continue;
    }
    if (verdict.kind === 'overflow') {
      const { message } = verdict;
      unsendable.push({ key, outcome: { kind: 'unfit', message }, reason: message });
    } else if (verdict.kind === 'compact') {
      // Less is reserved only if the estimate has changed meanwhile; the next attempt uses the new estimate.
      const most = Math.min(summaryMaxOf(sized, settings.prices), reserved_output_tokens ?? Infinity);
      fitted.push({ ...key, max_tokens: most, summarise_to_seq: verdict.plan.to_seq });
    } else if (verdict.max_tokens < max_tokens) {
      fitted.push({ ...key, max_tokens: verdict.max_tokens, summarise_to_seq: null });
    }
  }
  await inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    await lockRuns(
      trx,
      fitted.map(({ run_id }) => run_id),
    );
    await commitStepsFitted(trx, fitted);
  });
  await hooks?.('submit.after_fit');
  return unsendable;
}

/** Returns the poison outcome of a request that threw `error`: its effects are unknown. */
export function poisonous({ run_id, number, attempt }: StepKey, error: unknown): UnsendableRequest {
  const reason = error instanceof Error ? error.message : 'unknown';
  return { key: { run_id, number, attempt }, outcome: { kind: 'poison', bill: null }, reason };
}

/** Returns the maximum output tokens of a request, or of the summary request that may replace it. */
export function outputTokensMax(sized: SizedRequest, prices: PriceTable, calibrations: Calibrations): number {
  const { max_tokens } = sized.request;
  if (!mayNotFit(sized, calibrations)) return max_tokens;
  return isCompacted(sized, calibrations) ? Math.max(max_tokens, summaryMaxOf(sized, prices)) : max_tokens;
}

/** Whether a tight request becomes a summary request, or may: a request that cannot be decided counts as such. */
function isCompacted(sized: SizedRequest, calibrations: Calibrations): boolean {
  try {
    return judge(sized, [], calibrationOf(calibrations, sized)).kind === 'compact';
  } catch {
    return true;
  }
}

function summaryMaxOf({ request, model_name }: SizedRequest, prices: PriceTable): number {
  const { output_tokens_max } = modelPrice(prices, model_name) ?? { output_tokens_max: Infinity };
  return Math.min(summaryMaxTokens(model_name, request.token_boost), output_tokens_max);
}

function judge(
  { request, definition, model_name, bytes }: SizedRequest,
  seqs: readonly number[],
  calibration: TokenCalibration,
): FitVerdict {
  const messages = JSON.parse(request.messages_json) as readonly {
    readonly role: string;
    readonly content: readonly ContentBlock[];
  }[];
  const facts = {
    messages: messages.map((message, index) => ({ ...message, seq: seqs[index] ?? 0 })),
    fixed_bytes: bytes - utf8Length(request.messages_json),
    replaced_bytes:
      request.summary === null ? 0 : utf8Length(summaryMessage(request.summary, request.hidden ?? 0)),
    has_tools: hasTools(definition),
    max_tokens: request.max_tokens,
    thinking_tokens: thinkingBudget(definition.model_settings),
    summary_tokens: summaryLimits(definition.context_window_limit).summary_tokens,
    binds_thinking: modelTraits(model_name).binds_thinking,
    is_refused: isRefused(request),
  };
  return fitRequest(facts, limitsOf(definition), calibration);
}

/** Definitions with samples in a provider batch: their samples are a column of its row. */
const DEFINITIONS_SAMPLED_MAX = 32;
/** Bytes of a body that are looked at for its symbols. */
const BYTES_LOOKED_AT = 512;
/** Requests of a provider batch that are all compared with the samples; of later ones, one in {@link COMPARED_EACH}. */
const ALL_COMPARED = 256;
const COMPARED_EACH = 8;

/** Samples of a provider batch, by definition. */
export type TokenSamples = Map<string, { readonly sample: TokenSample; readonly symbols: number }[]>;

/**
 * Samples the densest and the largest of the compared requests of each definition, without images; their answers will
 * calibrate the tokens. As many as reservations need, so that the first provider batch of new work is enough.
 */
export function sampleTokens(
  samples: TokenSamples,
  { request, model_name: model, bytes, images, body }: EncodedRequest,
): void {
  if (images > 0) return;
  const { run_id, number, attempt, definition_id, ordinal } = request;
  const kept = samples.get(definition_id) ?? [];
  const isCompared = ordinal < ALL_COMPARED || ordinal % COMPARED_EACH === 0;
  if (kept.length >= PROMPT_SAMPLES_MIN && !isCompared) return;
  if (kept.length === 0) {
    if (samples.size >= DEFINITIONS_SAMPLED_MAX) return;
    samples.set(definition_id, kept);
  }
  const entry = { sample: { run_id, number, attempt, model, bytes }, symbols: symbolShare(body) };
  if (kept.length < PROMPT_SAMPLES_MIN) {
    kept.push(entry);
    return;
  }
  const densest = kept.reduce((most, each) => (each.symbols > most.symbols ? each : most));
  const smallest = kept
    .filter((each) => each !== densest)
    .reduce((least, each) => (each.sample.bytes < least.sample.bytes ? each : least));
  if (bytes <= smallest.sample.bytes && entry.symbols <= densest.symbols) return;
  kept[kept.indexOf(smallest)] = entry;
}

/** Returns the share of bytes that are neither a letter nor a space, by some of the bytes: text with more has shorter tokens. */
function symbolShare(body: Uint8Array): number {
  const stride = Math.ceil(body.length / BYTES_LOOKED_AT);
  let symbols = 0;
  for (let at = 0; at < body.length; at += stride) {
    const byte = body[at] ?? 0;
    const lower = byte | 0x20;
    if (byte !== 0x20 && (lower < 0x61 || lower > 0x7a)) symbols++;
  }
  return (symbols * stride) / body.length;
}
