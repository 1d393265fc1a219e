import { createHash } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import { TALLY_SLOTS } from '@nightshift/db';
import type { ResultsQuery } from '../../schemas/results.ts';

/** The position behind a line. */
export interface ResultsCursor<Position> {
  /** Runs of the file up to here. */
  readonly count: number;
  readonly position: Position;
}

/** A place in the order of requests. */
export interface InputPosition {
  /** The ordinal of the next run. */
  readonly ordinal: number;
  /** True if the batch was running when a part before began: runs before this place may have ended since. */
  readonly is_partial: boolean;
}

/** A place in the order of ends: for each slot of the batch's counts the last version passed, and the runs passed of the next. */
export type EndPosition = readonly { readonly version: number; readonly runs: number }[];

export const FIRST_IN_INPUT: ResultsCursor<InputPosition> = {
  count: 0,
  position: { ordinal: 0, is_partial: false },
};
export const FIRST_END: ResultsCursor<EndPosition> = {
  count: 0,
  position: Array.from({ length: TALLY_SLOTS }, () => ({ version: 0, runs: 0 })),
};

/** Returns a text that differs between downloads whose lines do not continue each other. */
export function downloadKey(batchId: string, query: ResultsQuery): string {
  const { order, state, ended_reason, error_group = null, include } = query;
  const sets = [state, ended_reason, include].map((list = []) => [...new Set<string>(list)].sort());
  const text = JSON.stringify([batchId, order, error_group, ...sets]);
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

export function fromInputCursor(key: string, after: string): ResultsCursor<InputPosition> {
  const [count = 0, ordinal = 0, partial = 0] = partsOf(key, after, 3, /^\d{1,9}$/).map(Number);
  return { count, position: { ordinal, is_partial: partial === 1 } };
}

export function toInputCursor(key: string, { count, position }: ResultsCursor<InputPosition>): string {
  return [key, count, position.ordinal, Number(position.is_partial)].join('.');
}

export function fromEndCursor(key: string, after: string): ResultsCursor<EndPosition> {
  const [count, ...slots] = partsOf(key, after, 1 + TALLY_SLOTS, /^\d{1,15}(-\d{1,9})?$/);
  const position = slots.map((slot) => {
    const [version = 0, runs = 0] = slot.split('-').map(Number);
    return { version, runs };
  });
  return { count: Number.parseInt(count ?? '', 10), position };
}

export function toEndCursor(key: string, { count, position }: ResultsCursor<EndPosition>): string {
  const slots = position.map(({ version, runs }) => (runs === 0 ? String(version) : `${version}-${runs}`));
  return [key, count, ...slots].join('.');
}

/** Splits a cursor. Throws: `validation_failed` for a cursor of another download. */
function partsOf(key: string, cursor: string, length: number, part: RegExp): readonly string[] {
  const [own, ...parts] = cursor.split('.');
  if (own === key && parts.length === length && parts.every((each) => part.test(each))) return parts;
  const message =
    'is no cursor of these results: take `cursor` of the last complete line, and the batch, order, filters and `include` of the download';
  throw new NightshiftError('validation_failed', `?after ${message}.`, {
    fields: [{ path: '?after', message }],
  });
}
