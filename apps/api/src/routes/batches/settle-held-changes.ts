import { mergeThreeWay, toWireId } from '@nightshift/agent-core';
import {
  acceptHeldChanges as commitAccept,
  inTransaction,
  inUndoneTransaction,
  planHeldAccept,
  rejectHeldChanges as commitReject,
  type AcceptReport,
  type HeldSelection,
  type OnConflict,
  type Tx,
} from '@nightshift/db';
import { diff3MergeRegions, diffIndices } from 'node-diff3';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import {
  acceptInput,
  acceptReport,
  heldFilter,
  rejectReport,
  type HeldFilterInput,
} from '../../schemas/held-change.ts';
import { wireId } from '../../schemas/ids.ts';

/** Shared description of the filter. */
const FILTERED =
  'Ids may name only agents of the batch, blocks that it changes and its changes; any other id is a 404, and nothing is ' +
  'settled. Changes already settled stay as they are; naming an agent or block whose changes were all settled the other ' +
  'way is a 409 that says when. Before the batch has ended, `agent_ids` may name agents whose runs have ended. ' +
  'Fields match as in the list, at the time of the request. Archival passages are settled if only `agent_ids` and ' +
  '`except_ids` are given.';

function toSelection(body: HeldFilterInput): HeldSelection {
  const { label, shrunk, stale, run_state, ended_reason, q, change_group } = body ?? {};
  const choice = {
    state: null,
    label: label ?? null,
    shrunk: shrunk ?? null,
    stale: stale ?? null,
    run_state: run_state ?? null,
    stop_reason: ended_reason ?? null,
    text: q ?? null,
    change_group: change_group ?? null,
  };
  return {
    agent_ids: body?.agent_ids ?? null,
    block_ids: body?.block_ids ?? null,
    change_ids: body?.change_ids ?? null,
    except_ids: body?.except_ids ?? null,
    choice: Object.values(choice).every((value) => value === null) ? null : choice,
  };
}

const DIFF3 = { diff3MergeRegions, diffIndices };
const CONFLICTS: Readonly<Record<OnConflict['kind'], OnConflict>> = {
  fail: { kind: 'fail' },
  rebase: { kind: 'rebase', merge: (base, current, mine) => mergeThreeWay(base, current, mine, DIFF3) },
  force: { kind: 'force' },
};

/** Tells what an accept would do. Without conflicts to resolve it writes nothing; other writes are undone. */
function planAccept(
  { db, projectId }: Context,
  batchId: string,
  selection: HeldSelection,
  conflict: OnConflict,
): Promise<AcceptReport> {
  if (conflict.kind === 'fail')
    return inTransaction(db, (trx) => planHeldAccept(trx, projectId, batchId, selection));
  return inUndoneTransaction(db, (trx) => commitAccept(trx, projectId, batchId, selection, conflict));
}

/** Rows of a report on the wire; without content, so that they may be stored with a key. */
function toWire({ accepted, passages, stale }: AcceptReport) {
  return {
    accepted,
    passages,
    stale: stale.map((change) => ({
      ...change,
      agent_id: toWireId('agent', change.agent_id),
      block_id: change.block_id === null ? null : toWireId('block', change.block_id),
    })),
  };
}

/** Applies held changes in one transaction. */
export function acceptHeldChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/held-changes/accept`,
    {
      schema: {
        operationId: 'acceptHeldChanges',
        summary: 'Accept the memory changes that a batch under review holds',
        description:
          'Accepts all changes, or only those that match all given fields. Includes changes of runs that failed, expired, ' +
          'were cancelled or ended at a limit, unless a field excludes them. Changes of blocks that have ' +
          'been changed meanwhile are listed and stay held, unless `on_conflict` decides otherwise. ' +
          FILTERED,
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        headers: idempotencyHeaders,
        body: acceptInput,
        response: { 200: acceptReport, ...problems },
      },
    },
    async (request, reply) => {
      const { body, params } = request;
      const selection = toSelection(body);
      const conflict = CONFLICTS[body?.on_conflict ?? 'fail'];
      if (body?.dry_run === true)
        return toWire(await planAccept(context, params.job_id, selection, conflict));
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) =>
          toWire(await commitAccept(trx, context.projectId, params.job_id, selection, conflict)),
        show: (report) => report,
      });
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
        description: `Rejects all changes, or only those that match all given fields. ${FILTERED}`,
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        headers: idempotencyHeaders,
        body: heldFilter,
        response: { 200: rejectReport, ...problems },
      },
    },
    (request, reply) => {
      const { body, params } = request;
      const selection = toSelection(body);
      const isDry = body?.dry_run === true;
      const reject = async (trx: Tx) => ({
        ...(await commitReject(trx, context.projectId, params.job_id, selection, isDry)),
      });
      if (isDry) return inTransaction(context.db, reject);
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: reject,
        show: (report) => report,
      });
    },
  );
}
