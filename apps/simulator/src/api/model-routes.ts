import { apiFailure } from '../api-error.ts';
import { MODELS, findModel, modelInfo } from '../models.ts';
import { jsonReply } from './reply.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './reply.ts';
import { listQueryOf } from './list-route.ts';

const PARAMETERS = new Set(['limit', 'after_id', 'before_id', 'lifecycle', 'lifecycle[]']);

/** `GET /v1/models`, newest first. */
export function handleListModels(exchange: Exchange): Reply {
  const { limit, after_id, before_id } = listQueryOf(exchange.url.searchParams, PARAMETERS);
  const cursor = MODELS.findIndex(({ id }) => id === (after_id ?? before_id));
  if ((after_id ?? before_id) !== null && cursor < 0) {
    throw apiFailure('invalid_request_error', `no model found with id "${after_id ?? before_id ?? ''}"`);
  }
  const rest = before_id === null ? MODELS.slice(cursor + 1) : MODELS.slice(0, cursor);
  const page = before_id === null ? rest.slice(0, limit) : rest.slice(-limit);
  return jsonReply({
    data: page.map((model) => modelInfo(model)),
    has_more: rest.length > limit,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  });
}

/** `GET /v1/models/{id}` */
export function handleRetrieveModel(exchange: Exchange): Reply {
  const model = findModel(exchange.target ?? '');
  if (model === undefined) throw apiFailure('not_found_error', `model: ${exchange.target ?? ''}`);
  return jsonReply(modelInfo(model, exchange.target ?? model.id));
}
