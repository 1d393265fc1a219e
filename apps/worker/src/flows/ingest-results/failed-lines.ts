import { lastError, toWireId, type Json } from '@nightshift/agent-core';
import type { DecidedRun } from '@nightshift/db';

/** Failed lines of one error type, with a few examples. */
export interface FailedLines {
  readonly type: string;
  /** The error of the first of them. */
  readonly message: string;
  readonly count: number;
  /** Runs, at most {@link EXAMPLES_MAX}, with their batches, as on the wire. */
  readonly examples: readonly string[];
}

const EXAMPLES_MAX = 3;

/** Collects the failed lines among decided lines, by error type. */
export function failedLinesOf(decided: readonly DecidedRun[]): readonly FailedLines[] {
  return joinFailedLines(
    decided.flatMap(({ run, decision: { step, reason } }): FailedLines[] => {
      if (!['errored', 'expired', 'lost'].includes(step.state)) return [];
      const { type, message } = lastError(
        textOr(step.error?.['type'], step.state),
        textOr(step.error?.['message'], reason),
      );
      const example = `${toWireId('run', run.id)} of ${toWireId('job', run.batch_id)}`;
      return [{ type, message, count: 1, examples: [example] }];
    }),
  );
}

function textOr(value: Json | undefined, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}

/** Adds up failed lines by error type. */
export function joinFailedLines(lines: readonly FailedLines[]): readonly FailedLines[] {
  return [...Map.groupBy(lines, ({ type }) => type)].map(([type, own]) => ({
    type,
    message: own[0]?.message ?? '',
    count: own.reduce((sum, { count }) => sum + count, 0),
    examples: own.flatMap(({ examples }) => examples).slice(0, EXAMPLES_MAX),
  }));
}

/** The fields of a log line about failed lines, which makes it a warning; none without failed lines. */
export function failureReport(failed: readonly FailedLines[]): {
  readonly failed?: number;
  readonly failures?: string;
  readonly warning?: true;
} {
  if (failed.length === 0) return {};
  return {
    failed: failed.reduce((sum, { count }) => sum + count, 0),
    failures: failed
      .map(({ type, message, count, examples }) => `${count} × ${type}: ${message} (${examples.join(', ')})`)
      .join('; '),
    warning: true,
  };
}
