/** Acts for the users of running batches: answers calls, raises caps, resumes batches, settles reviews. */
import { takeAnswers } from '../apps/api/src/routes/runs/tool-results.ts';
import { sql } from 'kysely';
import { isError } from '../libs/agent-core/src/index.ts';
import {
  acceptHeldChanges,
  changeCaps,
  DEFAULT_PROJECT_ID,
  inTransaction,
  rejectHeldChanges,
  resumeBatch,
  type Database,
} from '../libs/db/src/index.ts';
import type { Random } from './random.ts';

type Answer = Parameters<typeof takeAnswers>[2][number];

/** Amounts by which a cap is raised: room for a few steps. */
const RAISE_NANOUSD = 20_000_000;
const RAISE_TOKENS = 4_000;

interface AwaitedCall {
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly awaits: 'approval' | 'answer';
  readonly verdict: string | null;
}

/**
 * Tells whether a run awaits an answer and whether a batch is paused. Called often, so it is one statement.
 */
export async function lookAround(
  db: Database,
): Promise<{ readonly asked: boolean; readonly capped: boolean }> {
  const { rows } = await sql<{ asked: boolean; capped: boolean }>`
    select exists (select from run where state = 'requires_action') as asked,
           exists (select from batch where state = 'paused') as capped
  `.execute(db);
  return rows[0] ?? { asked: false, capped: false };
}

/**
 * Answers awaited calls, at times in part, twice, late or with another answer. Tells whether a run goes on.
 */
export async function answerCalls(
  db: Database,
  random: Random,
  answered: Map<string, Answer>,
): Promise<boolean> {
  const calls = await db
    .selectFrom('tool_call')
    .innerJoin('run', 'run.id', 'tool_call.run_id')
    .select(['run_id', 'tool_use_id', 'awaits', 'verdict'])
    .where('awaits', 'is not', null)
    .whereRef('tool_call.step_number', '=', 'run.step_number')
    .orderBy('run_id')
    .orderBy('call_index')
    .execute();
  let goesOn = false;
  for (const [runId, awaited] of Map.groupBy(calls as AwaitedCall[], (call) => call.run_id)) {
    const approvals = awaited.flatMap((call) => {
      if (call.verdict !== null && !random.chance(0.1)) return [];
      if (random.chance(0.3)) return [];
      const key = `${call.run_id}/${call.tool_use_id}`;
      const answer = random.chance(0.9) ? answered.get(key) : undefined;
      return [answer ?? drawAnswer(random, call)];
    });
    if (approvals.length === 0) continue;
    try {
      goesOn = (await inTransaction(db, (trx) => takeAnswers(trx, runId, approvals))) || goesOn;
      for (const answer of approvals) answered.set(`${runId}/${answer.tool_call_id}`, answer);
    } catch (error) {
      // The answer differs from the one before, or the run has ended.
      if (!isError(error, 'conflict') && !isError(error, 'validation_failed')) throw error;
    }
  }
  return goesOn;
}

function drawAnswer(random: Random, { awaits, tool_use_id: tool_call_id }: AwaitedCall): Answer {
  if (awaits === 'approval') {
    return random.chance(0.7)
      ? { type: 'approval', tool_call_id, approve: true }
      : { type: 'approval', tool_call_id, approve: false, reason: 'Rather not.' };
  }
  const status = random.chance(0.8) ? 'success' : 'error';
  return { type: 'tool', tool_call_id, tool_return: `said ${random.int(0, 9)}`, status };
}

/** Raises the caps of batches that have reached theirs. */
export async function raiseCaps(db: Database): Promise<void> {
  const paused = await db
    .selectFrom('batch')
    .innerJoin('batch_budget', 'batch_budget.batch_id', 'batch.id')
    .select(['id', 'max_cost_nanousd', 'max_output_tokens'])
    .where('state', '=', 'paused')
    .orderBy('id')
    .execute();
  for (const { id, max_cost_nanousd, max_output_tokens } of paused) {
    const change = {
      cost_nanousd: max_cost_nanousd === null ? null : max_cost_nanousd + RAISE_NANOUSD,
      output_tokens: max_output_tokens === null ? null : max_output_tokens + RAISE_TOKENS,
    };
    await inTransaction(db, (trx) => changeCaps(trx, DEFAULT_PROJECT_ID, id, change));
  }
}

/** Resumes batches that are paused for another reason than a cap. Returns their open runs. */
export async function resumePaused(db: Database): Promise<readonly string[]> {
  return inTransaction(db, async (trx) => {
    const { rows } = await sql<{ id: string }>`
      select b.id from batch b
       where b.state = 'paused' and not exists (select from batch_budget g where g.batch_id = b.id and g.room <> 'open')
       order by b.id for no key update
    `.execute(trx);
    const runs: string[] = [];
    for (const { id } of rows) {
      const open = await sql<{ id: string }>`
        select id from run where batch_id = ${id}::uuid and ended_at is null order by id
      `.execute(trx);
      runs.push(...open.rows.map((run) => run.id));
      await resumeBatch(trx, DEFAULT_PROJECT_ID, id);
    }
    return runs;
  });
}

/** Accepts or rejects the held changes of an ended batch. Returns false while it runs. */
export async function settleReview(
  db: Database,
  batchId: string,
  { accept, isNight }: { readonly accept: boolean; readonly isNight: boolean },
): Promise<boolean> {
  const filter = { agent_ids: null, block_ids: null };
  try {
    await inTransaction(db, async (trx): Promise<void> => {
      if (accept) await acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batchId, filter);
      // Changes in conflict stay held after an accept; a cursor waits for them.
      if (!accept || isNight) await rejectHeldChanges(trx, DEFAULT_PROJECT_ID, batchId, filter);
    });
    return true;
  } catch (error) {
    if (isError(error, 'batch_running')) return false;
    throw error;
  }
}
