import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import { containsText } from '../contains-text.ts';
import { LABEL_CHARS_MAX, metadataLabel, tagLabel } from './labels.ts';

/** Filters of a list of batches; absent does not filter. */
export interface BatchFilter {
  readonly state?: BatchState | undefined;
  readonly tag?: string | undefined;
  /** Part of the name. */
  readonly name?: string | undefined;
  readonly schedule_id?: string | undefined;
  readonly retry_of?: string | undefined;
  /** One property, with its value. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** ISO times, both exclusive. */
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
}

/** States that few batches have, so that another filter may look at all of them. */
const OPEN_STATES: ReadonlySet<BatchState> = new Set(['receiving', 'running', 'paused', 'cancelling']);
/** Shortest part of a name that the index finds. Unit: characters. */
const NAME_CHARS_MIN = 3;

/**
 * The filters with an index, beside the times, which each of them can be combined with:
 * `batch_by_state`, `batch_label`, `batch_by_name`, `batch_by_schedule`, `batch_by_retry`.
 */
const INDEXED = ['tag', 'name', 'schedule_id', 'retry_of', 'metadata'] as const;

/**
 * Checks that an index serves the filters together: one of tag, name, schedule, retried batch and metadata; or a state; or
 * the state of open batches with one of them.
 * Throws: `validation_failed` with the parameters.
 */
export function assertServed(filter: BatchFilter): void {
  const [first, second] = INDEXED.filter((name) => filter[name] !== undefined);
  if (first !== undefined && second !== undefined) throw unserved(second, first);
  if (first !== undefined && filter.state !== undefined && !OPEN_STATES.has(filter.state))
    throw unserved('state', first, `state=${filter.state}`);
  if (filter.name !== undefined && [...filter.name].length < NAME_CHARS_MIN)
    throw refused('name', `must have at least ${NAME_CHARS_MIN} characters, or no index finds it`);
  if (filter.metadata !== undefined) labelOfMetadata(filter.metadata);
}

/** Returns the label of a filter by tag or metadata; null for another filter. */
export function labelOf({ tag, metadata }: BatchFilter): string | null {
  if (tag !== undefined) return tagLabel(tag);
  return metadata === undefined ? null : labelOfMetadata(metadata);
}

function labelOfMetadata(metadata: Readonly<Record<string, unknown>>): string {
  const [property, ...others] = Object.entries(metadata);
  if (property === undefined || others.length > 0)
    throw refused('metadata', 'must have exactly one property: no index serves several');
  const label = metadataLabel(...property);
  if (label === null)
    throw refused(
      'metadata',
      `must have a string, number, boolean or null of at most ${LABEL_CHARS_MAX} characters: no index finds another value`,
    );
  return label;
}

function unserved(name: string, other: string, shown = name): NightshiftError {
  const message =
    `cannot be combined with ${other}: no index serves both. Filter by one of them, and by created_after and created_before; ` +
    `a state of open batches (${[...OPEN_STATES].join(', ')}) can be added`;
  return refused(name, message, shown);
}

function refused(name: string, message: string, shown = name): NightshiftError {
  const path = `?${name}`;
  return new NightshiftError('validation_failed', `?${shown} ${message}.`, { fields: [{ path, message }] });
}

/** Conditions on columns that never change; a cursor must name a batch that meets them. */
export function ownerOf(projectId: string, { schedule_id, retry_of }: BatchFilter): RawBuilder<SqlBool> {
  return allOf([
    sql`b.project_id = ${projectId}`,
    ...(schedule_id === undefined ? [] : [sql`b.schedule_id = ${schedule_id}::uuid`]),
    ...(retry_of === undefined ? [] : [sql`b.retry_of = ${retry_of}::uuid`]),
  ]);
}

/**
 * The other conditions on a batch `b`, except those of its label. With a state, the few open batches are looked at: the index
 * of names, which the planner would take for a common part too, is left out.
 */
export function conditionsOf({
  state,
  name,
  created_after,
  created_before,
}: BatchFilter): RawBuilder<SqlBool> {
  return allOf([
    ...(state === undefined ? [] : [sql`b.state = ${state}`]),
    ...(name === undefined || state !== undefined ? [] : [sql`name_grams(b.name) @> name_grams(${name})`]),
    ...(name === undefined ? [] : [containsText('b.name', name)]),
    ...(created_after === undefined ? [] : [sql`b.created_at > ${created_after}::timestamptz`]),
    ...(created_before === undefined ? [] : [sql`b.created_at < ${created_before}::timestamptz`]),
  ]);
}

function allOf(conditions: readonly RawBuilder<unknown>[]): RawBuilder<SqlBool> {
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `);
}
