import { apiFailure } from '../api-error.ts';
import type { Batch } from '../batch.ts';
import type { ListPage, ListQuery } from '../faults/fault.ts';
import type { SimulatorState } from '../state.ts';
import { wireBatch } from '../wire-batch.ts';
import { jsonReply } from './reply.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './reply.ts';
import { faultContext } from './find-batch.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1000;
const PARAMETERS = new Set(['limit', 'after_id', 'before_id']);

/**
 * Parses the paging parameters of a list.
 * Throws: an ApiFailure that names the parameter.
 */
export function listQueryOf(
  parameters: URLSearchParams,
  allowed: ReadonlySet<string> = PARAMETERS,
): ListQuery {
  for (const name of parameters.keys()) {
    if (!allowed.has(name))
      throw apiFailure('invalid_request_error', `${name}: Extra inputs are not permitted`);
  }
  const limit = Number(parameters.get('limit') ?? DEFAULT_LIMIT);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw apiFailure('invalid_request_error', `limit: Input should be an integer between 1 and ${MAX_LIMIT}`);
  }
  const after_id = parameters.get('after_id');
  const before_id = parameters.get('before_id');
  if (after_id !== null && before_id !== null) {
    throw apiFailure('invalid_request_error', 'before_id and after_id cannot both be given');
  }
  return { limit, after_id, before_id };
}

/** Returns the position of a cursor in the order of creation; a deleted batch keeps its position. */
function seqOfCursor(state: SimulatorState, workspace: string, name: string, id: string): number {
  const batch = state.batches.get(id);
  if (batch?.workspace !== workspace) {
    throw apiFailure('invalid_request_error', `${name}: no message batch found with id "${id}"`);
  }
  return batch.seq;
}

/** Selects a page, newest first, after or before the cursor; `batches` is oldest first. */
function pageOf(
  batches: readonly Batch[],
  query: ListQuery,
  cursorSeq: number,
): { batches: Batch[]; has_more: boolean } {
  if (query.before_id !== null) {
    const newer = batches.filter(({ seq }) => seq > cursorSeq);
    return { batches: newer.slice(0, query.limit).reverse(), has_more: newer.length > query.limit };
  }
  const older = query.after_id === null ? batches : batches.filter(({ seq }) => seq < cursorSeq);
  return { batches: older.slice(-query.limit).reverse(), has_more: older.length > query.limit };
}

/** `GET /v1/messages/batches` */
export function handleList(state: SimulatorState, exchange: Exchange): Reply {
  const { faults, workspace, origin } = exchange;
  const query = faults.reduce(
    (asked, fault) => fault.asked?.(asked) ?? asked,
    listQueryOf(exchange.url.searchParams),
  );
  const cursorId = query.after_id ?? query.before_id;
  const cursorName = query.after_id === null ? 'before_id' : 'after_id';
  const cursorSeq = cursorId === null ? 0 : seqOfCursor(state, workspace, cursorName, cursorId);
  const own = state.batches
    .all()
    .filter((batch) => batch.workspace === workspace && batch.deleted_at_ms === null);
  const listed = faults.reduce<readonly Batch[]>(
    (batches, fault) => fault.listed?.(batches, faultContext(state, fault.ruleId)) ?? batches,
    own,
  );
  const plain = pageOf(listed, query, cursorSeq);
  const nowMs = state.clock.now();
  const page = faults.reduce<ListPage>(
    (shown, fault) => fault.page?.(shown, faultContext(state, fault.ruleId)) ?? shown,
    {
      batches: plain.batches.map((batch) => wireBatch(batch, state.settings, nowMs, origin)),
      has_more: plain.has_more,
    },
  );
  return jsonReply({
    data: page.batches,
    has_more: page.has_more,
    first_id: page.batches[0]?.id ?? null,
    last_id: page.batches.at(-1)?.id ?? null,
  });
}
