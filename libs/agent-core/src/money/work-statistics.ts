import { hex32 } from '../base/hex.ts';
import type { Definition } from '../model/definition.ts';
import { NO_USAGE, promptTokens, type Usage } from '../model/usage.ts';

/*
 * Statistics of answers, by key: a definition, or a work class. A work class joins definitions with the same model, tools
 * and kind of result, whatever their system prompts say.
 */

/** Step numbers counted alone; later steps share one more place. */
const STEPS_ALONE = 16;
/** Pseudo-answers of a prior: measured shares outweigh it from about as many answers on. */
const PRIOR_ANSWERS = 4;
/** Prior probability of another step. */
const CONTINUATION_WITH_TOOLS = 0.5;
const CONTINUATION_WITHOUT_TOOLS = 0.05;
/** Buckets of output tokens per doubling. */
const BUCKETS_PER_OCTAVE = 4;
const OUTPUT_BUCKET_MAX = 100;

/** The names of the sums, as in the table `work_statistic`. */
export const WORK_COUNTS = [
  'answers',
  'ended',
  'prompt_tokens',
  'output_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
  'cache_read_tokens',
] as const;

/** Sums over answers. */
export interface WorkCounts {
  readonly answers: number;
  /** Runs that ended with these answers. */
  readonly ended: number;
  /** Prompt tokens, cached or not. */
  readonly prompt_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cache_read_tokens: number;
}

/** What answers of a key have used. */
export interface WorkStatistics extends Omit<WorkCounts, 'ended'> {
  /** Ended runs. */
  readonly runs: number;
  /** Counts of the steps 1 to 16, and of all later steps; shorter if there were fewer steps. */
  readonly steps: readonly WorkCounts[];
  /** Answers by bucket of output tokens, see {@link outputBucket}. */
  readonly outputs: readonly number[];
}

/** An answer, or the end of a run after its answer was counted. */
export interface WorkSample {
  readonly keys: readonly string[];
  readonly step_number: number;
  /** Null: the answer is counted already, and its run ends now. */
  readonly usage: Usage | null;
  readonly ended: boolean;
}

/** Sums of samples, in the shape of the table `work_statistic`. */
export interface WorkSum extends WorkCounts {
  readonly key: string;
  /** `total`: all answers. `step`: by step number. `output`: by bucket of output tokens. */
  readonly measure: 'total' | 'step' | 'output';
  readonly bucket: number;
}

/** Returns the key of a definition. */
export function definitionKey(definitionId: string): string {
  return `definition:${definitionId}`;
}

/** Returns the key of a definition's work class: model, tool names, typed result, and memory rewrite or not. */
export function workClassKey(
  definition: Pick<Definition, 'model' | 'tools' | 'server_tools' | 'result_format' | 'writable_labels'>,
): string {
  const text = JSON.stringify([
    definition.model,
    [...definition.tools, ...(definition.server_tools ?? [])].map(({ name }) => name).sort(),
    definition.result_format != null,
    definition.writable_labels != null,
  ]);
  return `class:${hash32(text, 0x811c9dc5)}${hash32(text, 0x1000193)}`;
}

/** Answers from which the statistics of a definition are preferred to those of its work class. */
const OWN_ANSWERS_MIN = 10;

/** Statistics that apply to a definition; null without answers. */
export interface ApplicableWork {
  readonly statistics: WorkStatistics | null;
  readonly of: 'definition' | 'class' | null;
}

/** Returns the statistics that apply to a definition: its own, or those of its work class while it has few answers. */
export function applicableWork(own: WorkStatistics | null, shared: WorkStatistics | null): ApplicableWork {
  const isOwn = own !== null && (own.answers >= OWN_ANSWERS_MIN || shared === null);
  if (isOwn) return { statistics: own, of: 'definition' };
  return { statistics: shared, of: shared === null ? null : 'class' };
}

/** FNV-1a. A collision joins two kinds of work, which spoils estimates only. */
function hash32(text: string, seed: number): string {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hex32(hash);
}

/** Returns the bucket of an answer with so many output tokens: a quarter of an octave each. */
export function outputBucket(tokens: number): number {
  const bucket = Math.ceil(BUCKETS_PER_OCTAVE * Math.log2(Math.max(1, tokens)) - 1e-9);
  return Math.min(OUTPUT_BUCKET_MAX, Math.max(0, bucket));
}

/** Returns the most output tokens of a bucket. */
export function outputBucketMax(bucket: number): number {
  return Math.floor(2 ** (bucket / BUCKETS_PER_OCTAVE) + 1e-6);
}

/** Sums samples by key, measure and bucket, in that order, so that two commits cannot deadlock. */
export function sumWorkSamples(samples: readonly WorkSample[]): readonly WorkSum[] {
  const sums = new Map<string, { -readonly [K in keyof WorkSum]: WorkSum[K] }>();
  const add = (key: string, measure: WorkSum['measure'], bucket: number, counts: WorkCounts): void => {
    const name = `${key} ${measure} ${bucket}`;
    let sum = sums.get(name);
    if (sum === undefined) sums.set(name, (sum = { key, measure, bucket, ...NO_COUNTS }));
    for (const count of WORK_COUNTS) sum[count] += counts[count];
  };
  for (const { keys, place, bucket, counts } of joinEqualSamples(samples)) {
    for (const key of keys) {
      add(key, 'total', 0, counts);
      add(key, 'step', place, counts);
      if (bucket !== null) add(key, 'output', bucket, counts);
    }
  }
  return [...sums.values()].sort(
    (one, other) =>
      compare(one.key, other.key) || compare(one.measure, other.measure) || one.bucket - other.bucket,
  );
}

/** Samples with the same keys and buckets. */
interface EqualSamples {
  readonly keys: readonly string[];
  readonly place: number;
  readonly bucket: number | null;
  readonly counts: { -readonly [K in keyof WorkCounts]: WorkCounts[K] };
}

/** Joins samples whose keys are the same list: a file has thousands of them, and few lists. */
function joinEqualSamples(samples: readonly WorkSample[]): readonly EqualSamples[] {
  const joined = new Map<readonly string[], Map<number, EqualSamples>>();
  for (const sample of samples) {
    const counts = countsOf(sample);
    const place = placeOfStep(sample.step_number);
    const bucket = sample.usage === null ? null : outputBucket(counts.output_tokens);
    const code = place * (OUTPUT_BUCKET_MAX + 2) + (bucket ?? -1) + 1;
    let ofKeys = joined.get(sample.keys);
    if (ofKeys === undefined) joined.set(sample.keys, (ofKeys = new Map<number, EqualSamples>()));
    let equal = ofKeys.get(code);
    if (equal === undefined) {
      equal = { keys: sample.keys, place, bucket, counts: { ...NO_COUNTS } };
      ofKeys.set(code, equal);
    }
    for (const count of WORK_COUNTS) equal.counts[count] += counts[count];
  }
  return [...joined.values()].flatMap((ofKeys) => [...ofKeys.values()]);
}

const NO_COUNTS: WorkCounts = {
  answers: 0,
  ended: 0,
  prompt_tokens: 0,
  output_tokens: 0,
  cache_write_5m_tokens: 0,
  cache_write_1h_tokens: 0,
  cache_read_tokens: 0,
};

function countsOf({ usage, ended }: WorkSample): WorkCounts {
  const { output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens } =
    usage ?? NO_USAGE;
  return {
    answers: usage === null ? 0 : 1,
    ended: ended ? 1 : 0,
    prompt_tokens: promptTokens(usage ?? NO_USAGE),
    output_tokens,
    cache_write_5m_tokens,
    cache_write_1h_tokens,
    cache_read_tokens,
  };
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Returns the bucket of a step number, from 0. */
export function placeOfStep(stepNumber: number): number {
  return Math.min(stepNumber, STEPS_ALONE + 1) - 1;
}

/** Joins the rows of a key. */
export function toWorkStatistics(sums: readonly WorkSum[]): WorkStatistics {
  const steps: (WorkCounts | undefined)[] = [];
  const outputs: (number | undefined)[] = [];
  let total = NO_COUNTS;
  for (const sum of sums) {
    if (sum.measure === 'total') total = sum;
    else if (sum.measure === 'output') outputs[sum.bucket] = sum.answers;
    else steps[sum.bucket] = sum;
  }
  const { ended, ...counts } = total;
  return {
    ...counts,
    runs: ended,
    steps: Array.from(steps, (step) => step ?? NO_COUNTS),
    outputs: Array.from(outputs, (answers) => answers ?? 0),
  };
}

/**
 * Returns the probability that a run takes another step after its step `stepNumber`.
 * By the answers of this step number, with the share of all steps as their prior; without answers, by the kind of work.
 */
export function continuationProbability(
  stats: WorkStatistics | null,
  stepNumber: number,
  work: { readonly has_tools: boolean },
): number {
  const prior = work.has_tools ? CONTINUATION_WITH_TOOLS : CONTINUATION_WITHOUT_TOOLS;
  if (stats === null) return prior;
  const overall = goesOn({ answers: stats.answers, ended: stats.runs }, prior);
  const step = stats.steps[placeOfStep(stepNumber)];
  return step === undefined ? overall : goesOn(step, overall);
}

function goesOn({ answers, ended }: Pick<WorkCounts, 'answers' | 'ended'>, prior: number): number {
  const on = Math.max(0, answers - ended);
  return Math.min(1, (on + PRIOR_ANSWERS * prior) / (answers + PRIOR_ANSWERS));
}

/** Returns a number of output tokens that at least this share of the answers did not exceed; null without answers. */
export function outputPercentile(stats: WorkStatistics | null, share: number): number | null {
  if (stats === null) return null;
  const total = stats.outputs.reduce((sum, answers) => sum + answers, 0);
  if (total === 0) return null;
  let seen = 0;
  const bucket = stats.outputs.findIndex((answers) => (seen += answers) >= total * share);
  return outputBucketMax(bucket < 0 ? stats.outputs.length - 1 : bucket);
}
