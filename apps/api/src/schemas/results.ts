import { listOf, STOP_REASONS } from '@nightshift/agent-core';
import { z } from 'zod';
import { ENDED_STATES, errorGroup } from './failure.ts';
import { shownId } from './ids.ts';
import { memoryChange } from './memory.ts';
import { lettaMessage } from './message.ts';
import { endedReason, runError } from './run.ts';
import { usage, usd } from './usage.ts';
import { RESULT_LINE } from './examples/batches.ts';

/** Type of results: a JSON value a line. */
export const JSON_LINES = 'application/jsonl';

const INCLUDED = ['messages', 'memory_changes', 'retries'] as const;

/** Splits a list with commas, so that `a,b` equals a repeated parameter. */
const commaList = <Item extends string>(items: readonly [Item, ...Item[]]) =>
  z
    .preprocess(
      (value) => (Array.isArray(value) ? value : [value]).flatMap((item) => String(item).split(',')),
      listOf(z.enum(items), 50),
    )
    .optional();

export const resultsQuery = z.strictObject({
  order: z
    .enum(['input', 'finished'])
    .default('input')
    .describe(
      '`input`: by the place of the request, from 0. `finished`: by the end of the run; a running batch is followed with it.',
    ),
  after: z
    .string()
    .max(300)
    .optional()
    .describe(
      '`cursor` of the last complete line: the file goes on behind it. Needs the same order, filters and `include`.',
    ),
  state: commaList(ENDED_STATES).describe('States, with commas between.'),
  ended_reason: commaList(STOP_REASONS).describe('Exact reasons, with commas between.'),
  error_group: errorGroup.optional().describe('A group of GET /v1/batches/{job_id}/errors.'),
  include: commaList(INCLUDED).describe(
    'With commas between. `messages`: the messages of each run. `memory_changes`: its memory writes that are in force, as ' +
      'diffs. `retries`: in place of a run, its last attempt in batches that retry this batch; needs ' +
      '`order=input`.',
  ),
});
export type ResultsQuery = z.output<typeof resultsQuery>;

const cursor = z.string().describe('For `after`.');

const runResult = z
  .object({
    custom_id: z.string().nullable(),
    run_id: shownId('run'),
    agent_id: shownId('agent'),
    batch_id: shownId('job').optional().describe('With `include=retries`: the batch of the run.'),
    state: z.enum(ENDED_STATES).meta({ id: 'EndedState' }),
    ended_reason: endedReason,
    text: z
      .string()
      .nullable()
      .describe('The text of the last assistant message; null beside a `result`, and without a text.'),
    result: z
      .unknown()
      .describe('The JSON requested by `response_format` or the tool `finish`; null for none.'),
    error: runError.nullable(),
    steps: z.int().describe('Applied answers.'),
    usage,
    cost_usd: usd.nullable().describe('Exact decimal; null if a model has no price.'),
    attempts: z.int().describe('Attempts at the last step.'),
    messages: z.array(lettaMessage).optional().describe('With `include=messages`; oldest first.'),
    memory_changes: z
      .array(memoryChange)
      .optional()
      .describe('With `include=memory_changes`; by block and revision.'),
    cursor,
  })
  .meta({ id: 'RunResult' });
export type RunResult = z.output<typeof runResult>;

const resultsEnd = z
  .object({
    end: z
      .object({
        count: z.int().describe('Runs in the file, from its first line on.'),
        complete: z
          .boolean()
          .describe(
            'True if every run of the batch had ended when the download, and each part of it, began.',
          ),
        cursor: z.string().describe('With `order=finished`: `after` for runs that end later.'),
      })
      .meta({ id: 'ResultsEndDetail' }),
  })
  .meta({ id: 'ResultsEnd' });
export type ResultsEnd = z.output<typeof resultsEnd>;

/** A line of results. */
export const resultLine = z
  .union([runResult, resultsEnd])
  .meta({ id: 'ResultLine', examples: [RESULT_LINE] });
