import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';

/** The operations for an operator of the service. */
export function adminOf(on: Call) {
  return {
    health: () => dataOf(sdk.health(on)),
    audit: () => dataOf(sdk.auditNow(on)),
    /** Checks the installation, and what schedules will meet until `at`. */
    checks: (query: types.RetrieveChecksData['query'] = {}) => dataOf(sdk.retrieveChecks({ ...on, query })),
    usage: (query: types.RetrieveUsageData['query'] = {}) => dataOf(sdk.retrieveUsage({ ...on, query })),
    embeddingModels: () => dataOf(sdk.listEmbeddingModels(on)),
    models: () => dataOf(sdk.listModels(on)),
    workers: () => dataOf(sdk.listWorkers(on)),
    /** Asks a worker to finish its work under way and to end. */
    drainWorker: (id: string) => dataOf(sdk.drainWorker({ ...on, path: { worker_id: id } })),
    tags: (query: types.ListTagsData['query'] = {}) =>
      itemsOf((after) => sdk.listTags({ ...on, query: { ...query, ...after } })),
    /** The kept events, oldest first; `events` of the client streams them. Rare changes: states of batches, pauses, ticks, held changes, waiting calls. */
    events: (query: types.StreamEventsData['query'] = {}) =>
      itemsOf((after) =>
        sdk.streamEvents({ ...on, query: { ...query, ...after }, headers: { accept: 'application/json' } }),
      ),
  };
}
