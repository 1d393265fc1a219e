import {
  mayHoldBlankText,
  mayHoldThoughts,
  modelTraits,
  parseModelHandle,
  withAlerts,
  withoutBlankTexts,
  withoutThoughts,
} from '@nightshift/agent-core';
import { readSealedRequests, readStalePrefixes, type Database, type SealedRequest } from '@nightshift/db';
import type { DefinitionCache } from './definition-cache.ts';

/** Reads the requests of a provider batch with ordinals in [from, to), in order, with their messages as sent. */
export async function readRequests(
  deps: { readonly definitions: DefinitionCache },
  db: Database,
  providerBatchId: string,
  from: number,
  to: number,
): Promise<readonly SealedRequest[]> {
  const sealed = await readSealedRequests(db, providerBatchId, from, to);
  return asSent(deps, db, sealed, (ordinals) => readStalePrefixes(db, providerBatchId, ordinals));
}

/**
 * Returns requests with their messages as sent.
 * System messages become user alerts and blank texts are dropped. Where the model binds thinking to its prompt, thinking up
 * to the last answer under another prompt is dropped.
 */
export async function asSent(
  deps: { readonly definitions: DefinitionCache },
  db: Database,
  sealed: readonly SealedRequest[],
  readStale: (ordinals: readonly number[]) => Promise<ReadonlyMap<number, number>>,
): Promise<readonly SealedRequest[]> {
  const requests = sealed.map((request) => withoutBlanks(withUserRoles(request)));
  const thoughtful = requests.filter(({ messages_json }) => mayHoldThoughts(messages_json));
  if (thoughtful.length === 0) return requests;
  const definitions = await deps.definitions.get(
    db,
    thoughtful.map((request) => request.definition_id),
  );
  const binding = thoughtful.filter(({ definition_id }) => {
    const model = definitions.get(definition_id)?.definition.model ?? '';
    return modelTraits(parseModelHandle(model)?.name ?? model).binds_thinking;
  });
  if (binding.length === 0) return requests;
  const stale = await readStale(binding.map((request) => request.ordinal));
  if (stale.size === 0) return requests;
  return requests.map((request) => {
    const count = stale.get(request.ordinal);
    if (count === undefined) return request;
    return { ...request, messages_json: withoutThoughts(request.messages_json, count) };
  });
}

/** Shows system messages as user alerts, except in a summary request, which needs the original roles. */
function withUserRoles(request: SealedRequest): SealedRequest {
  if (!request.has_system || request.is_summary) return request;
  return { ...request, messages_json: withAlerts(request.messages_json) };
}

function withoutBlanks(request: SealedRequest): SealedRequest {
  if (!mayHoldBlankText(request.messages_json)) return request;
  return { ...request, messages_json: withoutBlankTexts(request.messages_json) };
}
