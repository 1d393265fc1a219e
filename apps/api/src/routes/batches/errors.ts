import { toWireId } from '@nightshift/agent-core';
import { readBatch, readFailureGroups, type FailureGroup } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { failureGroups, type FailureGroupsResponse } from '../../schemas/failure.ts';
import { wireId } from '../../schemas/ids.ts';

/** Groups of an answer. Default, and most. */
const GROUPS_DEFAULT = 100;
const GROUPS_MAX = 1_000;

/** Groups the failures of a batch by their messages. */
export function listErrors(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/errors`,
    {
      schema: {
        operationId: 'listBatchErrors',
        summary: 'Group the failures of a batch',
        description:
          'Runs that failed, expired or were cancelled so far, grouped by their stop reason and message without ids and ' +
          'numbers. Try a group again with POST /v1/batches/{job_id}/retry. Beyond Letta.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          limit: z
            .int()
            .min(1)
            .max(GROUPS_MAX)
            .default(GROUPS_DEFAULT)
            .describe('Most groups; the smaller ones are left out, and counted in `groups_total`.'),
        }),
        response: { 200: failureGroups, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      await readBatch(context.db, context.projectId, job_id);
      const { groups, ...totals } = await readFailureGroups(context.db, job_id, request.query.limit);
      return { ...totals, groups: groups.map(toWire) };
    },
  );
}

function toWire({
  first_failed_at,
  last_failed_at,
  samples,
  ...group
}: FailureGroup): FailureGroupsResponse['groups'][number] {
  return {
    ...group,
    first_failed_at: first_failed_at?.toISOString() ?? null,
    last_failed_at: last_failed_at?.toISOString() ?? null,
    samples: samples.map((sample) => ({ ...sample, run_id: toWireId('run', sample.run_id) })),
  };
}
