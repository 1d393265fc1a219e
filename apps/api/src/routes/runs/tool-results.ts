import {
  decideCallerAnswer,
  NightshiftError,
  type CallerAnswer,
  type PlannedCall,
} from '@nightshift/agent-core';
import {
  commitCallerAnswers,
  inTransaction,
  lockRuns,
  readAwaitedCalls,
  readRun,
  type AwaitedCallRow,
  type RunToDecide,
  type NewCallerAnswer,
  type Tx,
} from '@nightshift/db';
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { runResponse } from '../../schemas/run.ts';
import { toolResultsInput, type CallerAnswerInput } from '../../schemas/tool-results.ts';
import { answerRun } from './answer-runs.ts';
import { readPlannedCalls } from './awaiting.ts';

/** Takes the caller's answers to calls of a run. After the last awaited answer, workers continue the run. */
export function sendToolResults(app: App, context: Context): void {
  app.post(
    '/v1/runs/:run_id/tool-results',
    {
      schema: {
        operationId: 'sendToolResults',
        summary: 'Approve, deny or answer calls of a waiting run',
        description:
          'A run in `requires_action` lists the awaited calls in `waits_for`. Send the answers together or separately; ' +
          'the run continues after the last. The model sees a denied call as an error with your reason. The same answer ' +
          "may be sent again; a different answer, or an answer after the run's deadline, is a conflict. All answers of a " +
          'request are taken, or none. Beyond Letta.',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        body: toolResultsInput,
        response: { 200: runResponse, ...problems },
      },
    },
    async (request) => {
      const { run_id } = request.params;
      await readRun(context.db, context.projectId, run_id);
      const goesOn = await inTransaction(context.db, (trx) =>
        takeAnswers(trx, run_id, request.body.approvals),
      );
      if (goesOn) await context.bell.ring([{ kind: 'tools', id: '*' }]);
      return answerRun(context, run_id);
    },
  );
}

/**
 * Takes answers to calls of a run.
 * Returns: whether workers must continue the run.
 */
export async function takeAnswers(
  trx: Tx,
  runId: string,
  approvals: readonly CallerAnswerInput[],
): Promise<boolean> {
  const run = (await lockRuns(trx, [runId])).get(runId);
  if (run === undefined) throw new NightshiftError('not_found', `There is no run run-${runId}.`);
  const rows = await readAwaitedCalls(trx, runId);
  const planned = await readPlannedCalls(trx, runId);
  const answers = approvals.flatMap((input, index) => judge(run, rows, planned, input, index));
  if (answers.length === 0) return false;
  return commitCallerAnswers(trx, run, answers);
}

/**
 * Returns the answer to write; none if it was already taken.
 * Throws: `validation_failed` or `conflict`.
 */
function judge(
  run: RunToDecide,
  rows: readonly AwaitedCallRow[],
  planned: readonly PlannedCall[],
  input: CallerAnswerInput,
  index: number,
): readonly NewCallerAnswer[] {
  const row = rows.findLast((candidate) => candidate.tool_use_id === input.tool_call_id);
  const fields = (name: string, message: string) => [{ path: `/approvals/${index}/${name}`, message }];
  if (row === undefined) {
    const message = 'is not an awaited call of this run';
    throw new NightshiftError('validation_failed', `/approvals/${index}/tool_call_id ${message}.`, {
      fields: fields('tool_call_id', message),
    });
  }
  const answer_sha256 = hashOf(input);
  const is_present = row.step_number === run.step_number;
  const tool = is_present ? planned.find((call) => call.index === row.call_index)?.tool : null;
  const call = { ...row, is_present, return_char_limit: tool?.return_char_limit ?? 0 };
  const decision = decideCallerAnswer(run, call, toCallerAnswer(input), answer_sha256);
  if (decision.kind === 'repeat') return [];
  if (decision.kind === 'take') return [{ ...decision.taken, call_index: row.call_index, answer_sha256 }];
  const { problem, message } = decision;
  throw new NightshiftError(problem === 'misfit' ? 'validation_failed' : 'conflict', message, {
    fields: fields(problem === 'misfit' ? 'type' : 'tool_call_id', message),
  });
}

function toCallerAnswer(input: CallerAnswerInput): CallerAnswer {
  if (input.type === 'tool') {
    return { kind: 'result', outcome: { ok: input.status === 'success', result: input.tool_return } };
  }
  return input.approve ? { kind: 'approve' } : { kind: 'deny', reason: input.reason ?? null };
}

function hashOf(input: CallerAnswerInput): string {
  const said =
    input.type === 'tool'
      ? [input.type, input.status, input.tool_return]
      : [input.type, input.approve, input.approve ? null : (input.reason ?? null)];
  return createHash('sha256').update(JSON.stringify(said)).digest('hex');
}
