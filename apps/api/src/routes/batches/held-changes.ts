import { toWireId } from '@nightshift/agent-core';
import {
  acceptHeldChanges as commitAccept,
  inTransaction,
  listHeldChanges as readPage,
  readBatch,
  rejectHeldChanges as commitReject,
  type HeldFilter,
} from '@nightshift/db';
import { z } from 'zod';
import { mapWithBreath } from '../../breathe.ts';
import type { App, Context } from '../../context.ts';
import { CHANGES_MAX, linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { acceptReport, heldChange, heldFilter, rejectReport } from '../../schemas/memory.ts';
import { toHeldChange } from '../../wire/to-memory-change.ts';

/** What both ways to settle say of their filter. */
const FILTERED =
  'An id that is no agent of the batch, or no block that it would have changed, is a 404 that names it, and nothing is ' +
  'settled then. What is accepted or rejected already stays so, without an error.';

/** What a batch under review would change, per agent and block. */
export function listHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/held-changes`,
    {
      schema: {
        operationId: 'listHeldChanges',
        summary: 'List what a batch under review would change in memory, as diffs',
        description:
          'One item per agent and block: what all calls of the agent come to. Oldest first. Changes of runs that failed, ' +
          'expired, were cancelled or ended at a limit are among them, as `run_state` and `stop_reason` tell, and are ' +
          'accepted like any other, unless `agent_ids` or `block_ids` leave them out.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          after: wireId('block').optional().describe('Id of an item: the page holds those that follow it.'),
          before: wireId('block').optional().describe('Id of an item: the page holds those just before it.'),
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
      const changes = await mapWithBreath(rows, toHeldChange);
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

/** Puts held changes in force: one transaction, so that all are there at once. */
export function acceptHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/held-changes/accept`,
    {
      schema: {
        operationId: 'acceptHeldChanges',
        summary: 'Put what a batch under review changed in memory in force',
        description:
          'All, or those of some agents, or to some blocks. Changes of runs that failed, expired, were cancelled or ended at ' +
          'a limit are accepted like any other, unless `agent_ids` or `block_ids` leave them out. The batch must have ' +
          'ended. Changes of blocks that somebody else has changed meanwhile are named and stay held. ' +
          FILTERED,
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: heldFilter,
        response: { 200: acceptReport, ...problems },
      },
    },
    async (request) => {
      const { accepted, passages, stale } = await inTransaction(context.db, (trx) =>
        commitAccept(trx, context.projectId, request.params.job_id, toFilter(request.body)),
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

/** Gives held changes up. */
export function rejectHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/held-changes/reject`,
    {
      schema: {
        operationId: 'rejectHeldChanges',
        summary: 'Give up what a batch under review would change in memory',
        description: `All, or those of some agents, or to some blocks. The batch must have ended. ${FILTERED}`,
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
