import type { BatchProgress } from '@nightshift/client';
import { countOf, dollarsOf, durationOf } from './words.ts';

/** Progress of a batch as a line shows it. */
export interface ShownProgress {
  readonly progress: BatchProgress;
  /** Exact decimal; null without a price, undefined while it is not known. */
  readonly cost: string | null | undefined;
  readonly now: number;
}

const BAR_COLUMNS = 24;
const BAR_COLUMNS_MIN = 6;

/** Renders progress as a bar of at most `columns` characters. */
export function progressBar(shown: ShownProgress, columns: number): string {
  const { progress } = shown;
  const percent = `${progress.percent}%`.padStart(4);
  const tail = [percent, ...detailsOf(shown)].join('  ');
  const room = columns - phaseOf(progress).length - tail.length - 6;
  const width = Math.max(BAR_COLUMNS_MIN, Math.min(BAR_COLUMNS, room));
  const full = Math.floor((progress.percent / 100) * width);
  const bar = `${'█'.repeat(full)}${'░'.repeat(width - full)}`;
  return cut(`${phaseOf(progress)}  ${bar} ${tail}`, columns - 1);
}

/** Renders progress as a line of a log. */
export function progressLine(shown: ShownProgress): string {
  return [phaseOf(shown.progress), `${shown.progress.percent}%`, ...detailsOf(shown)].join('  ');
}

/** Changes of what a log shows: a tenth, the reason of a wait, the end. */
export function milestoneOf({ percent, phase, waiting_reason: reason }: BatchProgress): string {
  return [Math.floor(percent / 10), reason?.cause ?? '', phase === 'done'].join('/');
}

function detailsOf({ progress, cost, now }: ShownProgress): string[] {
  const { ended, total, runs_per_second: rate, waiting_reason: reason } = progress;
  return [
    `${countOf(ended)}/${countOf(total)}`,
    ...(rate === null || progress.phase === 'done'
      ? []
      : [`${rate >= 10 ? countOf(Math.round(rate)) : rate.toPrecision(2)}/s`]),
    ...callsOf(progress),
    ...(progress.eta === null ? [] : [etaOf(progress.eta, now)]),
    // The end has a cost of its own, and this is of an earlier look.
    ...(cost === undefined || progress.phase === 'done' ? [] : [dollarsOf(cost)]),
    ...(reason === null ? [] : [reason.message]),
  ];
}

/** Tells of the calls while some are open, or after some have failed. */
function callsOf({ calls: { done, failed, unknown, open } }: BatchProgress): string[] {
  if (open + failed + unknown === 0) return [];
  const ended = done + failed + unknown;
  return [
    [
      `${countOf(ended)}/${countOf(ended + open)} calls`,
      ...(failed > 0 ? [`${countOf(failed)} failed`] : []),
      ...(unknown > 0 ? [`${countOf(unknown)} unknown`] : []),
    ].join(', '),
  ];
}

function etaOf({ earliest, latest }: NonNullable<BatchProgress['eta']>, now: number): string {
  const [from, to] = [Date.parse(earliest), Date.parse(latest)].map((time) => durationOf(time - now));
  return from === to ? `${from ?? ''} left` : `${from ?? ''} to ${to ?? ''} left`;
}

function phaseOf({ phase }: BatchProgress): string {
  return phase.replaceAll('_', ' ');
}

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`;
}
