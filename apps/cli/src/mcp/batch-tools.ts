import type { Batch, BatchCreate, BatchEstimate, ResultsEndDetail, RunResult } from '@nightshift/client';
import { z } from 'zod';
import { endedOf } from '../ended.ts';
import { pageOf } from './bounds.ts';
import { batchBody, batchId, maxChars, paging, runId, runState } from './inputs.ts';
import { counted, pick, readingTool, type ReadingTool } from './tool.ts';

/** The fields of a batch that say something. */
export const showBatch = (batch: Batch) =>
  pick(
    batch,
    'id',
    'name',
    'tags',
    'state',
    'state_reason',
    'apply',
    'counts',
    'usage',
    'limits',
    'expected_cost_usd',
    'pilot',
    'schedule_id',
    'retry_of',
    'metadata',
    'created_at',
    'completed_at',
  );

/** Says where a batch stands. */
export function standingOf(batch: Batch): string {
  const reason = batch.state_reason === null ? '' : ` ${batch.state_reason}`;
  const cost = batch.usage.cost_usd === null ? '' : `, $${batch.usage.cost_usd} so far`;
  return `Batch ${batch.id} is ${batch.state}: ${endedOf(batch)} of ${batch.counts.total} runs have ended, ${batch.counts.failed} failed${cost}.${reason}`;
}

const listBatches = readingTool({
  name: 'list_batches',
  description: 'Lists batches, latest first, with their state, counts and cost.',
  input: z.object({
    state: z
      .enum(['receiving', 'running', 'paused', 'cancelling', 'completed', 'cancelled', 'failed'])
      .exactOptional(),
    tag: z.string().exactOptional(),
    name: z.string().min(3).exactOptional().describe('Part of the name'),
    schedule_id: z.string().exactOptional(),
    ...paging,
  }),
  read: async (client, query) => {
    const page = await pageOf(client.batches.list(query), {
      limit: query.limit,
      charsMax: 500,
      cursor: ({ id }) => id,
      show: (batch) =>
        pick(batch, 'id', 'name', 'tags', 'state', 'state_reason', 'counts', 'usage', 'created_at'),
    });
    return { text: `${counted(page.items.length, 'batch', 'batches')}.`, data: { ...page } };
  },
});

const showOne = readingTool({
  name: 'show_batch',
  description: 'Shows a batch: its state, counts, usage, limits and pilot.',
  input: z.object({ batch_id: batchId }),
  read: async (client, { batch_id }) => {
    const batch = await client.batches.retrieve(batch_id);
    return { text: standingOf(batch), data: { batch: showBatch(batch), progress: batch.progress } };
  },
});

const progress = readingTool({
  name: 'batch_progress',
  description: 'Tells where a batch stands: phase, ended runs, rate, expected end, and why it waits.',
  input: z.object({ batch_id: batchId }),
  read: async (client, { batch_id }) => {
    const standing = await client.batches.progress(batch_id);
    const { phase, ended, total, percent, eta, waiting_reason } = standing;
    const end = eta === null ? '' : ` It should end between ${eta.earliest} and ${eta.latest}.`;
    const wait = waiting_reason === null ? '' : ` ${waiting_reason.message}`;
    return {
      text: `${phase}: ${ended} of ${total} runs have ended (${percent} %).${end}${wait}`,
      data: { progress: standing },
    };
  },
});

const results = readingTool({
  name: 'batch_results',
  description:
    'Reads results of a batch, one per ended run, at any time: text or JSON result, error, cost. For all of a large batch use nightshift results.',
  input: z.object({
    batch_id: batchId,
    state: z.array(z.enum(['completed', 'failed', 'expired', 'cancelled'])).exactOptional(),
    error_group: z.string().exactOptional().describe('A group of batch_errors'),
    include: z.array(z.enum(['messages', 'memory_changes', 'retries'])).exactOptional(),
    max_chars: maxChars,
    ...paging,
  }),
  read: async (client, { batch_id, limit, max_chars, ...query }, signal) => {
    let end: ResultsEndDetail | undefined;
    async function* lines(): AsyncGenerator<RunResult, void> {
      end = yield* client.batches.results(batch_id, query, { signal });
    }
    const page = await pageOf(lines(), { limit, charsMax: max_chars, cursor: ({ cursor }) => cursor });
    const open = end?.complete === false ? ' Runs are still open: their results come later.' : '';
    return {
      text: `${counted(page.items.length, 'result')}.${open}`,
      data: { ...page, all_runs_have_ended: end?.complete ?? null },
    };
  },
});

const errors = readingTool({
  name: 'batch_errors',
  description: 'Groups the failed runs of a batch by equal messages, with sample runs. Large groups first.',
  input: z.object({ batch_id: batchId, limit: paging.limit }),
  read: async (client, { batch_id, limit }) => {
    const { runs, groups_total, groups } = await client.batches.errors(batch_id, { limit });
    return {
      text: `${counted(runs, 'run')} failed, in ${counted(groups_total, 'group')}.`,
      data: {
        runs,
        groups_total,
        groups,
        ...(groups_total > groups.length && { note: 'There are more groups: ask with a larger limit.' }),
      },
    };
  },
});

const listRuns = readingTool({
  name: 'list_runs',
  description: 'Lists runs, of a batch or of an agent, latest first.',
  input: z.object({
    batch_id: batchId.exactOptional(),
    agent_id: z.string().exactOptional(),
    custom_id: z.string().exactOptional().describe('Needs batch_id'),
    state: runState,
    max_chars: maxChars,
    ...paging,
  }),
  read: async (client, { max_chars, ...query }) => {
    const page = await pageOf(client.runs.list(query), {
      limit: query.limit,
      charsMax: max_chars,
      cursor: ({ id }) => id,
      show: (run) =>
        pick(
          run,
          'id',
          'agent_id',
          'batch_id',
          'custom_id',
          'state',
          'ended_reason',
          'error',
          'result',
          'usage',
        ),
    });
    return { text: `${counted(page.items.length, 'run')}.`, data: { ...page } };
  },
});

const showRun = readingTool({
  name: 'show_run',
  description: 'Shows a run: state, end, error, result, usage, what it waits for, and its last error.',
  input: z.object({ run_id: runId }),
  read: async (client, { run_id }) => {
    const run = await client.runs.retrieve(run_id);
    const end = run.ended_reason === null ? '' : ` (${run.ended_reason})`;
    return {
      text: `Run ${run.id} is ${run.state}${end}, after ${counted(run.usage.steps, 'step')}.`,
      data: {
        run: pick(
          run,
          'id',
          'agent_id',
          'batch_id',
          'custom_id',
          'conversation_id',
          'state',
          'ended_reason',
          'error',
          'result',
          'usage',
          'limits',
          'deadline',
          'waits_for',
          'step_number',
          'attempts',
          'last_error',
          'next_attempt_at',
          'created_at',
          'started_at',
          'completed_at',
        ),
      },
    };
  },
});

const messages = readingTool({
  name: 'run_messages',
  description: 'Reads the messages of a run, oldest first: input, answers, tool calls and their results.',
  input: z.object({
    run_id: runId,
    order: z.enum(['asc', 'desc']).default('asc'),
    max_chars: maxChars,
    ...paging,
  }),
  read: async (client, { run_id, max_chars, ...query }) => {
    const page = await pageOf(client.runs.messages(run_id, query), {
      limit: query.limit,
      charsMax: max_chars,
      cursor: ({ id }) => id,
    });
    return { text: `${counted(page.items.length, 'message')}.`, data: { ...page } };
  },
});

const estimate = readingTool({
  name: 'estimate',
  description: 'Estimates runs, tokens and cost of a batch, against its caps. Stores and sends nothing.',
  input: z.object({ batch: batchBody }),
  read: async (client, { batch }) => {
    const estimated = await client.batches.estimate(batch as BatchCreate);
    return { text: describeEstimate(estimated), data: { estimate: estimated } };
  },
});

/** Says what a batch will cost. */
export function describeEstimate({ runs, cost_usd, verdict, unpriced_models }: BatchEstimate): string {
  const cost =
    cost_usd === null
      ? `a cost that is not known, because ${unpriced_models.join(', ')} has no price`
      : `an expected cost of $${cost_usd.expected} (at most $${cost_usd.worst})`;
  const cap = verdict === null ? 'The batch has no cap.' : `Against its cap: ${verdict}.`;
  return `${counted(runs, 'run')}, with ${cost}. ${cap}`;
}

export const BATCH_TOOLS: readonly ReadingTool[] = [
  listBatches,
  showOne,
  progress,
  results,
  errors,
  listRuns,
  showRun,
  messages,
  estimate,
];
