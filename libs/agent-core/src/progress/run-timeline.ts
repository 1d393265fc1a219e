import type { RunState } from '../machine/run.ts';

/** Kinds of intervals of a run. */
export const INTERVAL_KINDS = [
  'queued',
  'gathering',
  'at_provider',
  'ingest',
  'tools',
  'waiting_for_caller',
  'retry',
] as const;
export type IntervalKind = (typeof INTERVAL_KINDS)[number];

/** A stored tool call, with its times. */
export interface TimedCall {
  readonly awaits: 'approval' | 'answer' | null;
  readonly verdict: 'approved' | 'denied' | 'answered' | null;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
}

/** An attempt of a step, with the times of its provider batch. */
export interface TimedStep {
  readonly number: number;
  readonly attempt: number;
  readonly sealed_at: Date;
  readonly submitted_at: Date | null;
  readonly provider_ended_at: Date | null;
  /** Time at which its answer was stored; null without a usable answer. */
  readonly applied_at: Date | null;
  readonly ended_at: Date | null;
  readonly calls: readonly TimedCall[];
}

/** A run, with its attempts of steps in order. */
export interface TimedRun {
  readonly state: RunState;
  readonly created_at: Date;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
  readonly steps: readonly TimedStep[];
}

/** A part of the life of a run. */
export interface RunInterval {
  readonly kind: IntervalKind;
  readonly from: Date;
  /** Null while it lasts. */
  readonly to: Date | null;
  /** Number and attempt of the step; null while queued, and before the step is sealed. */
  readonly step: { readonly number: number; readonly attempt: number } | null;
}

/**
 * Derives the intervals of a run from its stored times, sorted by their start. Intervals of one kind do not overlap, and all
 * lie within the run. An interval whose bounds are not stored is left out, such as the wait for an approval that was given.
 */
export function deriveTimeline(run: TimedRun): readonly RunInterval[] {
  const raw = [
    { kind: 'queued' as const, from: run.created_at, to: run.started_at, step: null },
    ...run.steps.flatMap((step, place) => intervalsOf(step, run.steps[place - 1], run)),
    ...afterSteps(run),
  ];
  const last = new Map<IntervalKind, RunInterval>();
  return raw
    .map((interval) => withinRun(interval, run))
    .sort((a, b) => a.from.getTime() - b.from.getTime())
    .flatMap((interval) => {
      const before = last.get(interval.kind);
      // After a clock was set back.
      const from = laterOf(interval.from, before === undefined ? interval.from : (before.to ?? NEVER));
      if (from >= (interval.to ?? NEVER)) return [];
      const kept = { ...interval, from };
      last.set(interval.kind, kept);
      return [kept];
    })
    .sort((a, b) => a.from.getTime() - b.from.getTime());
}

const NEVER = new Date(8.64e15);

const laterOf = (a: Date, b: Date): Date => (a > b ? a : b);
const earlierOf = (a: Date, b: Date | null): Date => (b !== null && b < a ? b : a);

function withinRun(interval: RunInterval, { created_at, ended_at }: TimedRun): RunInterval {
  const to = interval.to === null ? ended_at : earlierOf(interval.to, ended_at);
  return { ...interval, from: laterOf(interval.from, created_at), to };
}

/** The intervals of an attempt, and of the wait for it after `before`. */
function intervalsOf(
  step: TimedStep,
  before: TimedStep | undefined,
  { started_at }: TimedRun,
): readonly RunInterval[] {
  const { number, attempt, sealed_at, submitted_at, provider_ended_at, applied_at, ended_at } = step;
  const key = { number, attempt };
  const isRetry = before?.number === number;
  const isFirst = number === 1 && attempt === 1;
  const readyAt = isFirst ? started_at : isRetry ? sealed_at : (before?.ended_at ?? null);
  const answeredAt = applied_at ?? ended_at;
  const settled = (moment: Date | null): Date | null =>
    moment === null ? answeredAt : answeredAt === null ? moment : earlierOf(moment, answeredAt);
  return [
    ...(isRetry && before.ended_at !== null
      ? [{ kind: 'retry' as const, from: before.ended_at, to: sealed_at, step: key }]
      : []),
    ...(readyAt === null
      ? []
      : [{ kind: 'gathering' as const, from: readyAt, to: settled(submitted_at), step: key }]),
    ...(submitted_at === null
      ? []
      : [{ kind: 'at_provider' as const, from: submitted_at, to: settled(provider_ended_at), step: key }]),
    ...(provider_ended_at === null
      ? []
      : [{ kind: 'ingest' as const, from: provider_ended_at, to: answeredAt, step: key }]),
    ...(applied_at === null ? [] : callIntervals(step, applied_at)),
  ];
}

/** The time of the tools of an answer, and the waits for the caller. */
function callIntervals({ number, attempt, calls }: TimedStep, appliedAt: Date): readonly RunInterval[] {
  const step = { number, attempt };
  const own = calls.filter(({ awaits }) => awaits === null);
  const approved = calls.filter(({ verdict }) => verdict === 'approved');
  // The time of an approval is not stored, so its wait cannot be told; the call itself can once it has started.
  const asked = calls.filter(({ awaits, verdict }) => awaits !== null && verdict !== 'approved');
  const starts = [
    ...(own.length > 0 ? [appliedAt] : []),
    ...approved.flatMap(({ started_at }) => (started_at === null ? [] : [started_at])),
  ];
  const ran = [...own, ...approved.filter(({ started_at }) => started_at !== null)];
  const begin = starts.reduce<Date | null>(
    (first, start) => (first === null ? start : earlierOf(start, first)),
    null,
  );
  return [
    ...(begin === null ? [] : [{ kind: 'tools' as const, from: begin, to: lastEnd(ran), step }]),
    ...(asked.length === 0
      ? []
      : [{ kind: 'waiting_for_caller' as const, from: appliedAt, to: lastEnd(asked), step }]),
  ];
}

/** The last end of calls; null while one has not ended. */
function lastEnd(calls: readonly TimedCall[]): Date | null {
  return calls.reduce<Date | null>(
    (last, { ended_at }) => (last === null || ended_at === null ? null : laterOf(last, ended_at)),
    new Date(-8.64e15),
  );
}

/** The present wait of a run whose next attempt is not sealed. */
function afterSteps({ state, started_at, steps }: TimedRun): readonly RunInterval[] {
  if (state !== 'ready') return [];
  const last = steps.at(-1);
  const from = last === undefined ? started_at : last.ended_at;
  if (from === null) return [];
  const isRetry = last?.applied_at === null;
  return [{ kind: isRetry ? 'retry' : 'gathering', from, to: null, step: null }];
}
