import { mergeThreeWay, toWireId } from '@nightshift/agent-core';
import {
  acceptHeldChanges as commitAccept,
  inTransaction,
  listHeldChanges as readPage,
  readBatch,
  rejectHeldChanges as commitReject,
  type HeldFilter,
  type OnConflict,
} from '@nightshift/db';
import { diff3MergeRegions, diffIndices } from 'node-diff3';
import { z } from 'zod';
import { mapYielding } from '../../yielding.ts';
import type { App, Context } from '../../context.ts';
import { CHANGES_MAX, linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { acceptInput, acceptReport, heldChange, heldFilter, rejectReport } from '../../schemas/memory.ts';
import { toHeldChange } from '../../wire/to-memory-change.ts';

/** Shared description of the filter. */
const FILTERED =
  'The filter may name only agents of the batch and blocks that it changes; any other id is a 404, and nothing is ' +
  'settled. Changes already settled stay as they are; naming an agent or block whose changes were all settled the other ' +
  'way is a 409 that says when. Before the batch has ended, `agent_ids` may name agents whose runs have ended.';

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
          'accepted like any other, unless `agent_ids` or `block_ids` exclude them.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          after: wireId('block').optional().describe('Id of an item; the page holds the items after it.'),
          before: wireId('block')
            .optional()
            .describe('Id of an item; the page holds the items just before it.'),
          limit: pageLimit(50, CHANGES_MAX),
          order: z.enum(['asc', 'desc']).default('asc'),
          state: z.enum(['held', 'accepted', 'rejected']).optional(),
          agent_id: wireId('agent').optional(),
          block_id: wireId('block').optional(),
        }),
        response: { 200: z.array(heldChange), ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { after = null, before = null, limit, order, ...query } = request.query;
      await readBatch(context.db, context.projectId, job_id);
      const page = { after, before, limit, order };
      const { rows, is_cut } = await readPage(context.db, job_id, page, {
        state: query.state ?? null,
        agent_id: query.agent_id ?? null,
        block_id: query.block_id ?? null,
      });
      const changes = await mapYielding(rows, toHeldChange);
      linkPages(
        request,
        reply,
        changes.map((change) => change.id),
        page,
        is_cut,
      );
      return changes;
    },
  );
}

function toFilter(body: z.output<typeof heldFilter>): HeldFilter {
  return { agent_ids: body?.agent_ids ?? null, block_ids: body?.block_ids ?? null };
}

const DIFF3 = { diff3MergeRegions, diffIndices };
const CONFLICTS: Readonly<Record<OnConflict['kind'], OnConflict>> = {
  fail: { kind: 'fail' },
  rebase: { kind: 'rebase', merge: (base, current, mine) => mergeThreeWay(base, current, mine, DIFF3) },
  force: { kind: 'force' },
};

/** Applies held changes in one transaction. */
export function acceptHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/held-changes/accept`,
    {
      schema: {
        operationId: 'acceptHeldChanges',
        summary: 'Accept the memory changes that a batch under review holds',
        description:
          'Accepts all changes, or only changes of some agents or blocks. Includes changes of runs that failed, expired, ' +
          'were cancelled or ended at a limit, unless `agent_ids` or `block_ids` exclude them. Changes of blocks that have ' +
          'been changed meanwhile are listed and stay held, unless `on_conflict` decides otherwise. ' +
          FILTERED,
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: acceptInput,
        response: { 200: acceptReport, ...problems },
      },
    },
    async (request) => {
      const { accepted, passages, stale } = await inTransaction(context.db, (trx) =>
        commitAccept(
          trx,
          context.projectId,
          request.params.job_id,
          toFilter(request.body),
          CONFLICTS[request.body?.on_conflict ?? 'fail'],
        ),
      );
      return {
        accepted,
        passages,
        stale: stale.map((change) => ({
          ...change,
          agent_id: toWireId('agent', change.agent_id),
          block_id: change.block_id === null ? null : toWireId('block', change.block_id),
        })),
      };
    },
  );
}

/** Discards held changes. */
export function rejectHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/held-changes/reject`,
    {
      schema: {
        operationId: 'rejectHeldChanges',
        summary: 'Reject the memory changes that a batch under review holds',
        description: `Rejects all changes, or only changes of some agents or blocks. ${FILTERED}`,
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: heldFilter,
        response: { 200: rejectReport, ...problems },
      },
    },
    async (request) => {
      const rejected = await inTransaction(context.db, (trx) =>
        commitReject(trx, context.projectId, request.params.job_id, toFilter(request.body)),
      );
      return { rejected };
    },
  );
}
