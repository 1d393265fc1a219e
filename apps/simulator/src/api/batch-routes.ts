import { rm, stat } from 'node:fs/promises';
import { apiFailure } from '../api-error.ts';
import type { Batch, WireBatch } from '../batch.ts';
import { cancelBatch, createBatch, deleteBatch } from '../lifecycle.ts';
import type { ResultPlan } from '../results/result-plan.ts';
import { spoolBody } from '../spool-body.ts';
import type { SimulatorState } from '../state.ts';
import { wireBatch } from '../wire-batch.ts';
import { jsonReply } from './reply.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './reply.ts';
import { faultContext, findBatch } from './find-batch.ts';

/** Shows a batch in this request, with the effects of faults. */
function shown(state: SimulatorState, exchange: Exchange, batch: Batch): WireBatch {
  const plain = wireBatch(batch, state.settings, state.clock.now(), exchange.origin);
  return exchange.faults.reduce(
    (wire, fault) => fault.shown?.(wire, batch, faultContext(state, fault.ruleId)) ?? wire,
    plain,
  );
}

const GATEWAY_TIMEOUT = '<html><body><h1>504 Gateway Time-out</h1></body></html>';

/** `POST /v1/messages/batches` */
export async function handleCreate(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  const { settings } = state;
  const { request, version, betas, workspace, faults, entry } = exchange;
  const limits = { maxBytes: settings.max_body_bytes, maxRequests: settings.max_requests };
  const body = await spoolBody(request, state.spoolDir, limits);
  entry.request_bytes = body.bodyBytes;
  const limit = settings.limits.queued_requests;
  if (limit !== null && state.queued + body.items.length > limit) {
    await rm(body.bodyPath, { force: true });
    throw apiFailure(
      'rate_limit_error',
      `This request would exceed your limit of ${limit} batch requests in the processing queue.`,
      { 'retry-after': '60' },
    );
  }
  const accepted = { ...body, workspace, version, betas };
  const arrivesAfterMs = faults.find((fault) => fault.arrivesAfterMs !== undefined)?.arrivesAfterMs;
  if (arrivesAfterMs !== undefined) {
    const { clock, batches } = state;
    clock.schedule(clock.now() + arrivesAfterMs, async () => {
      // After a reset the batch is dropped.
      if (state.batches === batches) createBatch(state, accepted, faults);
      else await rm(body.bodyPath, { force: true });
    });
    return { status: 504, headers: { 'content-type': 'text/html' }, body: GATEWAY_TIMEOUT };
  }
  const batch = createBatch(state, accepted, faults);
  entry.committed = batch.id;
  return jsonReply(shown(state, exchange, batch));
}

/** `GET /v1/messages/batches/{id}` */
export function handleRetrieve(state: SimulatorState, exchange: Exchange): Reply {
  return jsonReply(shown(state, exchange, findBatch(state, exchange)));
}

/** `POST /v1/messages/batches/{id}/cancel` */
export function handleCancel(state: SimulatorState, exchange: Exchange): Reply {
  const batch = findBatch(state, exchange);
  cancelBatch(state, batch, exchange.faults);
  exchange.entry.committed = batch.id;
  return jsonReply(shown(state, exchange, batch));
}

/** `DELETE /v1/messages/batches/{id}` */
export async function handleDelete(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  const batch = findBatch(state, exchange);
  await deleteBatch(state, batch);
  exchange.entry.committed = batch.id;
  return jsonReply({ id: batch.id, type: 'message_batch_deleted' });
}

const acceptsGzip = (header: string | string[] | undefined): boolean => /\bgzip\b/.test(String(header ?? ''));

/** `GET /v1/messages/batches/{id}/results` */
export async function handleResults(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  const batch = findBatch(state, exchange);
  if (batch.status !== 'ended') {
    throw apiFailure(
      'not_found_error',
      `Results of batch ${batch.id} are not available: it has not finished processing.`,
    );
  }
  if (batch.results_path === null) {
    throw apiFailure(
      'not_found_error',
      `Results of batch ${batch.id} are no longer available: it has been archived.`,
    );
  }
  const { settings } = state;
  const plain: ResultPlan = {
    path: batch.results_path,
    totalBytes: (await stat(batch.results_path)).size,
    totalLines: batch.count,
    contentType: settings.results_content_type,
    gzip: settings.results_gzip && acceptsGzip(exchange.request.headers['accept-encoding']),
    edits: [],
    stopAfterBytes: null,
    cut: null,
    chunkBytes: null,
    bytesPerSecond: null,
    stall: null,
  };
  const results = exchange.faults.reduce(
    (plan, fault) => fault.results?.(plan, faultContext(state, fault.ruleId)) ?? plan,
    plain,
  );
  return { status: 200, headers: {}, body: '', results };
}
