import { NightshiftError, type TimedRun, type TimedStep } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { IS_KEPT } from '../../fragments.ts';

/** Latest attempts of steps that a timeline holds. */
const STEPS_MAX = 1_000;

/** The stored times of a run; `is_cut` if earlier attempts of its steps are left out. */
export interface StoredTimes extends TimedRun {
  readonly is_cut: boolean;
}

/** Reads the times of a run, of its latest steps and of their calls. Throws: `not_found`. Index: primary keys. */
export async function readTimedRun(db: Database, projectId: string, runId: string): Promise<StoredTimes> {
  const run = await db
    .selectFrom('run as r')
    .select(['r.state', 'r.created_at', 'r.started_at', 'r.ended_at'])
    .where('r.id', '=', runId)
    .where('r.project_id', '=', projectId)
    .where(IS_KEPT)
    .executeTakeFirst();
  if (run === undefined) throw new NightshiftError('not_found', `There is no run run-${runId}.`);
  const { rows } = await sql<Omit<TimedStep, 'calls'>>`
    select s.number, s.attempt, s.sealed_at, p.submitted_at, p.ended_at as provider_ended_at, s.applied_at, s.ended_at
      from step s join provider_batch p on p.id = s.provider_batch_id
     where s.run_id = ${runId}::uuid order by s.number desc, s.attempt desc limit ${STEPS_MAX + 1}
  `.execute(db);
  const latest = rows.slice(0, STEPS_MAX).reverse();
  const calls = await db
    .selectFrom('tool_call')
    .select(['step_number', 'awaits', 'verdict', 'started_at', 'ended_at'])
    .where('run_id', '=', runId)
    .where('step_number', '>=', latest[0]?.number ?? 0)
    .execute();
  const byStep = Map.groupBy(calls, ({ step_number }) => step_number);
  return {
    ...run,
    steps: latest.map((step) => ({
      ...step,
      calls: step.applied_at === null ? [] : (byStep.get(step.number) ?? []),
    })),
    is_cut: rows.length > STEPS_MAX,
  };
}
