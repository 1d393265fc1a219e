import {
  editHeldChange as commitEdit,
  inTransaction,
  listHeldChanges as readPage,
  readBatch,
  readHeldChange,
  summarizeHeldChanges as readSummary,
  type HeldChangeFilter,
} from '@nightshift/db';
import { z } from 'zod';
import { mapYielding } from '../../yielding.ts';
import type { App, Context } from '../../context.ts';
import { linkPages } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import {
  heldChange,
  heldChangesQuery,
  heldEdit,
  heldSummary,
  heldSummaryQuery,
} from '../../schemas/held-change.ts';
import { wireId } from '../../schemas/ids.ts';
import { assertFits } from '../../wire/to-block.ts';
import { toHeldChange, toHeldChangeWithValues, toHeldSummary } from '../../wire/to-held-change.ts';

/** Most labels that a summary counts. */
const LABELS_MAX = 100;

function toFilter(
  query: z.output<typeof heldSummaryQuery> | z.output<typeof heldChangesQuery>,
): HeldChangeFilter {
  return {
    state: query.state ?? null,
    agent_id: query.agent_id ?? null,
    block_id: query.block_id ?? null,
    label: query.label ?? null,
    shrunk: query.shrunk ?? null,
    stale: query.stale ?? null,
    run_state: query.run_state ?? null,
    stop_reason: query.ended_reason ?? null,
    text: query.q ?? null,
    change_group: query.change_group ?? null,
  };
}

/** Lists the held changes of a batch under review, by agent and block. */
export function listHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/held-changes`,
    {
      schema: {
        operationId: 'listHeldChanges',
        summary: 'List the memory changes that a batch under review holds, as diffs',
        description:
          "One item per agent and block, with the combined effect of the agent's calls; oldest first. Includes changes " +
          'of runs that failed, expired, were cancelled or ended at a limit: see `run_state` and `stop_reason`. They are ' +
          'accepted like any other, unless the filter of the accept excludes them. Filters other than `agent_id` and ' +
          '`block_id`, and `sort=risk`, read all changes of the batch for a page.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: heldChangesQuery,
        response: { 200: z.array(heldChange), ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { after = null, before = null, limit, order = 'asc', sort, include } = request.query;
      await readBatch(context.db, context.projectId, job_id);
      const withValues = include === 'values';
      const page = { after, before, limit, order, sort, with_present: withValues };
      const { rows, is_cut } = await readPage(context.db, job_id, page, toFilter(request.query));
      const changes = await mapYielding(rows, withValues ? toHeldChangeWithValues : toHeldChange);
      linkPages(
        request,
        reply,
        changes.map(({ id }, index) => {
          const place = rows[index]?.risk_place ?? null;
          return place === null ? id : `${id}@${place}`;
        }),
        { limit, order, after: after?.draft_id ?? null, before: before?.draft_id ?? null },
        is_cut,
      );
      return changes;
    },
  );
}

/** Counts the held changes of a batch under review. */
export function summarizeHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/held-changes/summary`,
    {
      schema: {
        operationId: 'summarizeHeldChanges',
        summary: 'Count the memory changes that a batch under review holds',
        description:
          'Counts by label, state and state of the run, and finds equal changes. Takes the filters of the list.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: heldSummaryQuery,
        response: { 200: heldSummary, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      await readBatch(context.db, context.projectId, job_id);
      const limits = { labels: LABELS_MAX, groups: request.query.groups };
      return toHeldSummary(await readSummary(context.db, job_id, toFilter(request.query), limits));
    },
  );
}

/** Edits the text of a held change. */
export function editHeldChange(app: App, context: Context, path: string, hide: boolean): void {
  app.patch(
    `${path}/:job_id/held-changes/:change_id`,
    {
      schema: {
        operationId: 'editHeldChange',
        summary: 'Edit the text that a held memory change proposes',
        description:
          'An accept then applies the edited text, in the name of the tool call, with the resolution `edited`. Returns the ' +
          'change with `values`. 409: the change was settled, `expected` is another text, the block is read-only now, or a ' +
          'run of the agent has not ended. 422: the text exceeds the limit of the block, or the change has no text.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job'), change_id: wireId('block') }),
        body: heldEdit,
        response: { 200: heldChange, ...problems },
      },
    },
    async (request) => {
      const { job_id, change_id } = request.params;
      const { value, expected = null } = request.body;
      return inTransaction(context.db, async (trx) => {
        await commitEdit(trx, context.projectId, job_id, change_id, {
          value,
          expected,
          assertFits: (text, limit) => {
            assertFits(text, limit, '/value');
          },
        });
        return toHeldChangeWithValues(await readHeldChange(trx, job_id, change_id));
      });
    },
  );
}
