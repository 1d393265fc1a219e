import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { ApiFailure, apiFailure, errorBody } from '../api-error.ts';
import type { ApiError } from '../api-error.ts';
import { idFrom } from '../draws.ts';
import { journalHeaders } from '../journal.ts';
import type { SimulatorState } from '../state.ts';
import { timestamp } from '../wire-batch.ts';
import { apiVersion, authenticate, betasOf } from './authenticate.ts';
import { handleCancel, handleCreate, handleDelete, handleResults, handleRetrieve } from './batch-routes.ts';
import { deliver } from './deliver.ts';
import type { Exchange, Operation } from './exchange.ts';
import type { Reply } from './reply.ts';
import { handleList } from './list-route.ts';
import { handleCountTokens, handleMessages } from './message-routes.ts';
import { handleListModels, handleRetrieveModel } from './model-routes.ts';
import { takeFromBudget } from './rate-limit.ts';

const BASE_URL = 'http://simulator.invalid';

interface Route {
  readonly op: Operation;
  readonly target: string | null;
}

const BATCH_OPERATIONS: ReadonlySet<Operation> = new Set([
  'create',
  'retrieve',
  'list',
  'cancel',
  'delete',
  'results',
]);

function routeOf(method: string, path: string): Route {
  const parts = path.split('/').slice(1);
  const [version, resource, third = null, fourth = null, fifth] = parts;
  if (version === 'v1' && parts.length <= 5) {
    const shape = `${method} ${resource}/${third === 'batches' || third === 'count_tokens' ? third : third === null ? '' : '*'}/${fourth === null ? '' : '*'}/${fifth ?? ''}`;
    switch (shape) {
      case 'POST messages/batches//':
        return { op: 'create', target: null };
      case 'GET messages/batches//':
        return { op: 'list', target: null };
      case 'GET messages/batches/*/':
        return { op: 'retrieve', target: fourth };
      case 'DELETE messages/batches/*/':
        return { op: 'delete', target: fourth };
      case 'POST messages/batches/*/cancel':
        return { op: 'cancel', target: fourth };
      case 'GET messages/batches/*/results':
        return { op: 'results', target: fourth };
      case 'POST messages///':
        return { op: 'messages', target: null };
      case 'POST messages/count_tokens//':
        return { op: 'count_tokens', target: null };
      case 'GET models///':
        return { op: 'list_models', target: null };
      case 'GET models/*//':
        return { op: 'retrieve_model', target: third };
    }
  }
  return { op: 'unknown', target: null };
}

function errorReply(error: ApiError, requestId: string): Reply {
  return {
    status: error.status,
    headers: { 'content-type': 'application/json', ...error.headers },
    body: errorBody(error, requestId),
    error_type: error.type,
  };
}

/** Discards the unread request body, so that the client can read the reply. */
async function drain(exchange: Exchange): Promise<void> {
  if (exchange.request.readableEnded || exchange.request.destroyed) return;
  try {
    for await (const chunk of exchange.request as AsyncIterable<Buffer>)
      exchange.entry.request_bytes += chunk.length;
  } catch {
    // The client has disconnected.
  }
}

async function handle(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  switch (exchange.op) {
    case 'create':
      return handleCreate(state, exchange);
    case 'retrieve':
      return handleRetrieve(state, exchange);
    case 'list':
      return handleList(state, exchange);
    case 'cancel':
      return handleCancel(state, exchange);
    case 'delete':
      return handleDelete(state, exchange);
    case 'results':
      return handleResults(state, exchange);
    case 'messages':
      return handleMessages(state, exchange);
    case 'count_tokens':
      return handleCountTokens(state, exchange);
    case 'list_models':
      return handleListModels(exchange);
    case 'retrieve_model':
      return handleRetrieveModel(exchange);
    case 'unknown':
      throw apiFailure(
        'not_found_error',
        `Not Found: ${exchange.request.method ?? ''} ${exchange.url.pathname}`,
      );
  }
}

async function replyTo(
  state: SimulatorState,
  exchange: Exchange,
  headers: Record<string, string>,
): Promise<Reply> {
  const { faults } = exchange;
  for (const fault of faults) {
    const early = await fault.before?.(exchange);
    if (early !== undefined) return early;
  }
  const { headers: asked } = exchange.request;
  let reply: Reply;
  try {
    const workspace = authenticate(state, asked);
    const version = apiVersion(asked);
    if (BATCH_OPERATIONS.has(exchange.op)) Object.assign(headers, takeFromBudget(state, workspace));
    headers['anthropic-workspace-id'] = idFrom('wrkspc_01', 22, 'workspace', workspace);
    reply = await handle(state, { ...exchange, workspace, version });
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    // Nothing was committed, so faults after the commit do not apply.
    return errorReply(error.apiError, exchange.requestId);
  }
  for (const fault of faults) if (fault.after) reply = await fault.after(reply, exchange);
  return reply;
}

/** Counts a request, finds its route and faults, and opens its journal entry. */
function openExchange(state: SimulatorState, request: IncomingMessage, response: ServerResponse): Exchange {
  // An invalid URL, such as "//", has no route.
  const url = URL.parse(request.url ?? '/', BASE_URL) ?? new URL(BASE_URL);
  const { op, target } = routeOf(request.method ?? 'GET', url.pathname);
  const opSeq = (state.opCounts.get(op) ?? 0) + 1;
  state.opCounts.set(op, opSeq);
  const requestId = idFrom('req_011C', 20, state.seed, state.instance, 'request', ++state.requestCount);
  const nowMs = state.clock.now();
  const retryHeader = request.headers['x-stainless-retry-count'];
  const retryCount = retryHeader === undefined ? null : Number(retryHeader);
  const batch = target === null ? undefined : state.batches.get(target);
  const batchSeq = op === 'create' ? state.batches.all().length + 1 : (batch?.seq ?? null);
  const found = state.rules.faultsFor({ op, opSeq, nowMs, batchId: target, batchSeq, retryCount });
  const entry = state.journal.open({
    at: timestamp(nowMs, state.settings),
    op,
    op_seq: opSeq,
    method: request.method ?? '',
    path: request.url ?? '',
    headers: journalHeaders(request.headers),
    retry_count: retryCount,
    request_id: requestId,
    request_bytes: 0,
    status: null,
    response_bytes: 0,
    outcome: 'pending',
    rule_id: found?.ruleId ?? null,
    committed: null,
    error_type: null,
  });
  return {
    op,
    url,
    target,
    request,
    response,
    requestId,
    version: '',
    betas: betasOf(request.headers),
    workspace: '',
    origin: state.settings.public_url?.replace(/\/$/, '') ?? `http://${request.headers.host ?? '127.0.0.1'}`,
    faults: found?.faults ?? [],
    entry,
  };
}

async function serve(
  state: SimulatorState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const exchange = openExchange(state, request, response);
  const { op, requestId, entry } = exchange;
  const headers: Record<string, string> = {
    date: new Date(state.clock.now() + state.settings.timestamps.skew_ms).toUTCString(),
    'request-id': requestId,
    'anthropic-organization-id': '0a51d0e7-51d0-4a51-8a51-51d0e751d0e7',
  };
  let reply: Reply;
  try {
    reply = await replyTo(state, exchange, headers);
  } catch (error) {
    // A fully read request is destroyed too, although it still waits for its answer.
    if (response.destroyed || (request.destroyed && !request.complete)) {
      entry.outcome = 'client_aborted';
      return;
    }
    process.stderr.write(`simulator: ${op} failed: ${(error as Error).stack ?? String(error)}\n`);
    reply = errorReply({ status: 500, type: 'api_error', message: 'Internal server error' }, requestId);
  }
  await drain(exchange);
  await deliver(exchange, reply, headers);
}

/** Creates the API server with routes, authentication, faults and replies. The caller starts it. */
export function createApiServer(state: SimulatorState): Server {
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    serve(state, request, response).catch((error: unknown) => {
      process.stderr.write(`simulator: a request could not be served: ${String(error)}\n`);
      response.destroy();
    });
  });
  // No timeouts: uploads of hundreds of megabytes and slow replies are normal here.
  server.requestTimeout = 0;
  server.headersTimeout = 60_000;
  server.keepAliveTimeout = 30_000;
  return server;
}
