import {
  listOf,
  NightshiftError,
  promptTokens,
  RUN_STATES,
  STOP_REASONS,
  type RunState,
  type StopReason,
  toUsd,
} from '@nightshift/agent-core';
import { listRuns as readPage, readRun, readRunUsages } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { eitherOf, QUERY_LIST_MAX } from '../../query.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { LETTA_STOP_REASONS, RUN_STATUSES, runResponse, usageResponse } from '../../schemas/run.ts';
import { answerRun, answerRuns, NO_USAGE } from './answer-runs.ts';
import { statesOf, stopReasonsOf } from '../../wire/to-run.ts';

const runsQuery = z.strictObject({
  ...pageQuery('run', { limit: 100, order: 'desc' }),
  agent_id: wireId('agent').optional(),
  agent_ids: listOf(wireId('agent'), QUERY_LIST_MAX).optional(),
  batch_id: wireId('job').optional().describe('Beyond Letta.'),
  custom_id: z.string().optional().describe("The caller's id of a run; needs `batch_id`. Beyond Letta."),
  statuses: listOf(z.enum(RUN_STATUSES), QUERY_LIST_MAX).optional(),
  state: z
    .enum(RUN_STATES)
    .optional()
    .describe(
      'The detailed state. A run in `requires_action` lists the awaited calls in `waits_for`. Beyond Letta.',
    ),
  active: z.boolean().optional().describe('True: only unfinished runs.'),
  background: z.boolean().optional().describe('Always true for runs of a batch.'),
  stop_reason: z.enum([...LETTA_STOP_REASONS, ...STOP_REASONS]).optional(),
  tool_calls_failed: z
    .boolean()
    .optional()
    .describe(
      'True: only runs with a tool call that failed, timed out or has an unknown outcome. False: only runs without. Needs ' +
        '`batch_id`. Beyond Letta.',
    ),
  ascending: z.boolean().optional().describe('Older form of `order`.'),
});

export function listRuns(app: App, context: Context): void {
  app.get(
    '/v1/runs',
    {
      schema: {
        operationId: 'listRuns',
        summary: 'List runs',
        tags: ['runs'],
        querystring: runsQuery,
        response: { 200: z.array(runResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const order = query.ascending === undefined ? query.order : query.ascending ? 'asc' : 'desc';
      const page = toPage({ ...query, order });
      if (query.batch_id === undefined) {
        if (query.custom_id !== undefined)
          throw needsBatch('custom_id', 'the id is unique only within a batch');
        if (query.tool_calls_failed !== undefined)
          throw needsBatch('tool_calls_failed', 'the calls of all runs are too many to look at');
      }
      if (query.background === false) return [];
      const { rows, is_cut } = await readPage(context.db, context.projectId, page, {
        batch_id: query.batch_id ?? null,
        custom_id: query.custom_id ?? null,
        agent_ids: eitherOf(query.agent_id, query.agent_ids),
        states: toStates(query),
        tool_calls_failed: query.tool_calls_failed ?? null,
        stop_reasons: query.stop_reason === undefined ? null : toStopReasons(query.stop_reason),
      });
      const runs = await answerRuns(context, rows);
      linkPages(
        request,
        reply,
        runs.map((run) => run.id),
        page,
        is_cut,
      );
      return runs;
    },
  );
}

/** Refuses a filter that is for the runs of one batch. */
function needsBatch(name: string, reason: string): NightshiftError {
  const message = `needs batch_id: ${reason}`;
  return new NightshiftError('validation_failed', `${name} ${message}.`, {
    fields: [{ path: `?${name}`, message }],
  });
}

function toStates(query: z.output<typeof runsQuery>): readonly RunState[] | null {
  if (query.state === undefined && query.statuses === undefined && query.active !== true) return null;
  const statuses = query.statuses ?? RUN_STATUSES;
  const states = statesOf(
    statuses.filter((status) => query.active !== true || status === 'created' || status === 'running'),
  );
  return states.filter((state) => query.state === undefined || state === query.state);
}

/** Returns the reasons that Letta's reason covers, or the exact reason itself. */
function toStopReasons(reason: string): readonly StopReason[] {
  return [...new Set([...stopReasonsOf(reason), ...STOP_REASONS.filter((own) => own === reason)])];
}

const ofRun = z.object({ run_id: wireId('run') });

export function retrieveRun(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id',
    {
      schema: {
        operationId: 'retrieveRun',
        summary: 'Read a run',
        tags: ['runs'],
        params: ofRun,
        response: { 200: runResponse, ...problems },
      },
    },
    async (request) => {
      return answerRun(context, request.params.run_id);
    },
  );
}

export function retrieveRunUsage(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id/usage',
    {
      schema: {
        operationId: 'retrieveRunUsage',
        summary: 'Read the usage of a run',
        tags: ['runs'],
        params: ofRun,
        response: { 200: usageResponse, ...problems },
      },
    },
    async (request) => {
      const run = await readRun(context.db, context.projectId, request.params.run_id);
      const usage = (await readRunUsages(context.db, [run.id])).get(run.id) ?? NO_USAGE;
      const prompt_tokens = promptTokens({
        ...usage,
        cache_write_5m_tokens: usage.cache_write_tokens,
        cache_write_1h_tokens: 0,
      });
      return {
        prompt_tokens,
        completion_tokens: usage.output_tokens,
        total_tokens: prompt_tokens + usage.output_tokens,
        prompt_tokens_details: {
          cached_tokens: usage.cache_read_tokens,
          cache_read_tokens: usage.cache_read_tokens,
          cache_creation_tokens: usage.cache_write_tokens,
          cache_write_tokens: usage.cache_write_tokens,
        },
        completion_tokens_details: null,
        step_count: usage.steps,
        cost_usd: toUsd(usage.cost_nanousd),
      };
    },
  );
}
