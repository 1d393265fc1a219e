import { NightshiftError, toUsd, toWireId } from '@nightshift/agent-core';
import { readLastDays, readUsage, type UsageRow } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { usd } from '../../schemas/usage.ts';

const DAYS_DEFAULT = 30;
const DAYS_MAX = 3_660;
const DAY_MS = 86_400_000;

const day = z.iso.date({ error: 'must be a day such as 2030-01-31' }).refine((text) => text >= '1970', {
  error: 'must be a day after 1969',
});

/** A day in an answer. */
const shownDay = z.string().meta({ format: 'date' });

const grouping = z.enum(['day', 'model', 'tag', 'schedule']);

const usageItem = z
  .object({
    key: z
      .string()
      .nullable()
      .describe(
        'The day, the model, the tag or the id of the schedule. Null: batches without a tag or schedule.',
      ),
    runs: z
      .object({ completed: z.int(), failed: z.int().describe('Failed and expired.'), cancelled: z.int() })
      .meta({ id: 'UsageRuns' }),
    steps: z.int().describe('Applied answers.'),
    input_tokens: z.int(),
    output_tokens: z.int(),
    cache_write_tokens: z.int(),
    cache_read_tokens: z.int(),
    cost_usd: usd.describe('Exact decimal, without the answers of `unpriced_steps`.'),
    unpriced_steps: z.int().describe('Answers of models without a price.'),
  })
  .meta({ id: 'UsageItem' });

const usageAnswer = z
  .object({
    from: shownDay,
    to: shownDay,
    group_by: grouping,
    data: z.array(usageItem),
  })
  .meta({
    id: 'UsageReport',
    examples: [
      {
        from: '2026-11-30',
        to: '2026-11-30',
        group_by: 'day',
        data: [
          {
            key: '2026-11-30',
            runs: { completed: 998, failed: 2, cancelled: 0 },
            steps: 1_000,
            input_tokens: 1_840_000,
            output_tokens: 212_000,
            cache_write_tokens: 0,
            cache_read_tokens: 0,
            cost_usd: '1.45',
            unpriced_steps: 0,
          },
        ],
      },
    ],
  });

/** Answers counts and cost by day, model, tag or schedule, also of batches that were deleted. */
export function retrieveUsage(app: App, context: Context): void {
  app.get(
    '/v1/usage',
    {
      schema: {
        operationId: 'retrieveUsage',
        summary: 'Read counts and cost by day, model, tag or schedule',
        description:
          'Answers count on the UTC day they were applied, runs on the day of their end. Deleted batches count. Beyond Letta.',
        tags: ['usage'],
        querystring: z.strictObject({
          from: day.optional().describe('First day, in UTC. Default: 29 days before `to`.'),
          to: day.optional().describe('Last day, in UTC. Default: today.'),
          group_by: grouping
            .default('day')
            .describe('With `tag`, a batch counts under each of its tags: these rows do not add up.'),
        }),
        response: { 200: usageAnswer, ...problems },
      },
    },
    async (request) => {
      const { group_by } = request.query;
      const days = await daysOf(context, request.query);
      const rows = await readUsage(context.db, context.projectId, days, group_by);
      return { ...days, group_by, data: rows.map((row) => toUsageItem(row, group_by)) };
    },
  );
}

async function daysOf(
  { db }: Context,
  given: { readonly from?: string | undefined; readonly to?: string | undefined },
): Promise<{ readonly from: string; readonly to: string }> {
  const to = given.to ?? (await readLastDays(db, 1)).to;
  const end = Date.parse(to);
  const from = given.from ?? new Date(end - (DAYS_DEFAULT - 1) * DAY_MS).toISOString().slice(0, 10);
  const days = (end - Date.parse(from)) / DAY_MS + 1;
  const message =
    days < 1
      ? `must not be after to (${to})`
      : days > DAYS_MAX
        ? `must be at most ${DAYS_MAX} days before to`
        : null;
  if (message === null) return { from, to };
  throw new NightshiftError('validation_failed', `?from ${message}.`, {
    fields: [{ path: '?from', message }],
  });
}

function toUsageItem(
  { key, completed, failed, cancelled, cost_nanousd, ...counts }: UsageRow,
  group_by: string,
): z.output<typeof usageItem> {
  return {
    ...counts,
    key: key !== null && group_by === 'schedule' ? toWireId('schedule', key) : key,
    runs: { completed, failed, cancelled },
    cost_usd: toUsd(cost_nanousd),
  };
}
