import {
  NightshiftError,
  stepKeyOf,
  type JsonObject,
  type StepState,
  type StrictParts,
} from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';
import { IS_KEPT } from '../../fragments.ts';
import { readDirection, refuseCursor, type Page } from '../keyset.ts';

/** An attempt of a step, with columns of its run and definition. */
export interface StepRow {
  readonly run_id: string;
  readonly number: number;
  readonly attempt: number;
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly state: StepState;
  readonly stop_reason: string | null;
  /** The requested handle, and the provider's name of the model that answered. */
  readonly model_handle: string;
  readonly model: string | null;
  readonly provider_message_id: string | null;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cache_read_tokens: number;
  /** Null after an answer of a model without a price. */
  readonly cost_nanousd: number | null;
  readonly error: JsonObject | null;
  /** It requested a summary of the conversation. */
  readonly is_summary: boolean;
  /** Parts of its definition whose form the provider enforces. */
  readonly strict: StrictParts | null;
  readonly context_window_limit: number;
  readonly sealed_at: Date;
  readonly ended_at: Date | null;
}

/** Filters of a list of steps; null does not filter. */
export interface StepFilter {
  readonly run_id: string | null;
  readonly agent_id: string | null;
  readonly model: string | null;
  /** Inclusive bounds of the sealing time; ISO 8601. */
  readonly from: string | null;
  readonly to: string | null;
}

const columns = [
  ...([
    's.run_id',
    's.number',
    's.attempt',
    'r.agent_id',
    'r.conversation_id',
    's.state',
    's.stop_reason',
  ] as const),
  ...([
    'd.model as model_handle',
    's.model',
    's.provider_message_id',
    's.input_tokens',
    's.output_tokens',
  ] as const),
  ...([
    's.cache_write_5m_tokens',
    's.cache_write_1h_tokens',
    's.cache_read_tokens',
    's.cost_nanousd',
  ] as const),
  ...([
    's.error',
    's.is_summary',
    'd.strict',
    'd.context_window_limit',
    's.sealed_at',
    's.ended_at',
  ] as const),
] as const;

const selectSteps = (db: Database) =>
  db
    .selectFrom('run as r')
    .innerJoin('step as s', 's.run_id', 'r.id')
    .innerJoin('definition as d', 'd.id', 'r.definition_id')
    .where(IS_KEPT)
    .select(columns);

/** Reads the attempt with a step's uuid. Throws: `not_found`. Index: primary key. */
export async function readStep(db: Database, projectId: string, stepUuid: string): Promise<StepRow> {
  const key = stepKeyOf(stepUuid);
  const step = await selectSteps(db)
    .where('s.run_id', '=', key.run_id)
    .where('s.number', '=', key.number)
    .where('s.attempt', '=', key.attempt)
    .where('r.project_id', '=', projectId)
    .executeTakeFirst();
  if (step === undefined) throw new NightshiftError('not_found', `There is no step step-${stepUuid}.`);
  return step;
}

/**
 * Reads a page of steps by the age of their run, then by number and attempt: this order has an index, since a list of
 * millions must not be sorted.
 * Index: `run_by_age` or `run_by_agent`, then the primary key.
 */
export async function listSteps(
  db: Database,
  projectId: string,
  page: Page,
  filter: StepFilter,
): Promise<readonly StepRow[]> {
  const reads = readDirection(page);
  const conditions = [
    ...(await toCursorCondition(db, page, 'after', filter.run_id)),
    ...(await toCursorCondition(db, page, 'before', filter.run_id)),
    ...toConditions(filter),
  ];
  const rows = await selectSteps(db)
    .where('r.project_id', '=', projectId)
    .where((eb) => eb.and(conditions))
    .orderBy('r.created_at', reads)
    .orderBy('r.id', reads)
    .orderBy('s.number', reads)
    .orderBy('s.attempt', reads)
    .limit(page.limit)
    .execute();
  return reads === page.order ? rows : [...rows].reverse();
}

function toConditions(filter: StepFilter): readonly RawBuilder<SqlBool>[] {
  return [
    ...(filter.run_id === null ? [] : [sql<SqlBool>`r.id = ${filter.run_id}`]),
    ...(filter.agent_id === null ? [] : [sql<SqlBool>`r.agent_id = ${filter.agent_id}`]),
    ...(filter.model === null
      ? []
      : [sql<SqlBool>`${filter.model} in (s.model, d.model, split_part(d.model, '/', 2))`]),
    ...(filter.from === null ? [] : [sql<SqlBool>`s.sealed_at >= ${filter.from}::timestamptz`]),
    ...(filter.to === null ? [] : [sql<SqlBool>`s.sealed_at <= ${filter.to}::timestamptz`]),
  ];
}

/**
 * The steps beyond the cursor. A step that was taken out of its provider batch keeps its place.
 * Throws: `validation_failed` for an unknown step, or a step of another run than `runId`.
 */
async function toCursorCondition(
  db: Database,
  page: Page,
  side: 'after' | 'before',
  runId: string | null,
): Promise<readonly RawBuilder<SqlBool>[]> {
  const cursor = page[side];
  if (cursor === null) return [];
  const key = stepKeyOf(cursor);
  if (runId !== null && runId !== key.run_id) refuseCursor(side);
  const run = await db
    .selectFrom('run as r')
    .select(sql<string>`created_at::text`.as('time'))
    .where('r.id', '=', key.run_id)
    .where(IS_KEPT)
    .where(
      sql<SqlBool>`(${key.number}::integer > 0 and (${key.number}::integer, ${key.attempt}::integer) <= (r.step_number, r.attempt)
        or exists (select from step where run_id = r.id and number = ${key.number} and attempt = ${key.attempt}))`,
    )
    .executeTakeFirst();
  if (run === undefined) refuseCursor(side);
  const up = (page.order === 'asc') === (side === 'after');
  // The first condition can use an index of runs; the second is exact.
  const position = sql`(${run.time}::timestamptz, ${key.run_id}::uuid, ${key.number}::integer, ${key.attempt}::smallint)`;
  return up
    ? [
        sql<SqlBool>`(r.created_at, r.id) >= (${run.time}::timestamptz, ${key.run_id}::uuid)`,
        sql<SqlBool>`(r.created_at, r.id, s.number, s.attempt) > ${position}`,
      ]
    : [
        sql<SqlBool>`(r.created_at, r.id) <= (${run.time}::timestamptz, ${key.run_id}::uuid)`,
        sql<SqlBool>`(r.created_at, r.id, s.number, s.attempt) < ${position}`,
      ];
}
