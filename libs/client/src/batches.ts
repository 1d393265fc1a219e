import { dataOf, itemsOf, type Call } from './call.ts';
import { createFromFile, type FileOptions, type FileSource } from './create-from-file.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';
import { onceOnly, type OnceOptions } from './once.ts';
import { resultsOf, type ResultsOptions, type ResultsQuery } from './results.ts';
import type { Send } from './send.ts';
import { waitForEnd, type WaitOptions } from './wait.ts';

/** The operations of batches. */
export function batchesOf(on: Call, send: Send) {
  const at = (id: string) => ({ ...on, path: { job_id: id } });
  return {
    /** Stores a batch. Its runs start at once. */
    create: (body: types.BatchCreate, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.createBatch({ ...on, body, headers: onceOnly(idempotencyKey) })),
    /** Stores the batch of a file with a request per line. */
    createFromFile: (source: FileSource, options: FileOptions = {}) => createFromFile(send, source, options),
    /** Waits until the batch has ended, and returns it. */
    wait: (id: string, options: WaitOptions = {}) => waitForEnd(send, id, options),
    /** Yields the runs that have ended, each once. */
    results: (id: string, query: ResultsQuery = {}, options: ResultsOptions = {}) =>
      resultsOf(send, id, query, options),
    /** Estimates the cost of a batch; stores nothing. */
    estimate: (body: types.BatchCreate) => dataOf(sdk.estimateBatch({ ...on, body })),
    retrieve: (id: string) => dataOf(sdk.retrieveBatch(at(id))),
    list: (query: types.ListBatchesData['query'] = {}) =>
      itemsOf((after) => sdk.listBatches({ ...on, query: { ...query, ...after } })),
    progress: (id: string) => dataOf(sdk.retrieveBatchProgress(at(id))),
    timeline: (id: string) => dataOf(sdk.retrieveBatchTimeline(at(id))),
    /** Failed runs in groups of equal messages. */
    errors: (id: string, query: types.ListBatchErrorsData['query'] = {}) =>
      dataOf(sdk.listBatchErrors({ ...at(id), query })),
    /** Makes a new batch of runs that failed. Default: all failed and expired runs. */
    retry: (id: string, body: types.BatchRetry = {}, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.retryBatch({ ...at(id), body, headers: onceOnly(idempotencyKey) })),
    pause: (id: string, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.pauseBatch({ ...at(id), headers: onceOnly(idempotencyKey) })),
    resume: (id: string, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.resumeBatch({ ...at(id), headers: onceOnly(idempotencyKey) })),
    /** Cancels the batch; answers under way are kept. */
    cancel: (id: string) => dataOf(sdk.cancelBatch(at(id))),
    /** Cancels some runs of the batch. */
    cancelRuns: (id: string, body: types.BatchCancel) => dataOf(sdk.cancelRunsOfBatch({ ...at(id), body })),
    changeCaps: (id: string, body: types.BatchCaps) => dataOf(sdk.changeBatchCaps({ ...at(id), body })),
    /** Forgets an ended batch. */
    delete: (id: string) => dataOf(sdk.deleteBatch(at(id))),
    /** Agents of a fleet that got no run, with the reasons. */
    skipped: (id: string, query: types.ListSkippedAgentsData['query'] = {}) =>
      itemsOf((after) => sdk.listSkippedAgents({ ...at(id), query: { ...query, ...after } })),
    memoryChanges: (id: string, query: types.ListMemoryChangesData['query'] = {}) =>
      itemsOf((after) => sdk.listMemoryChanges({ ...at(id), query: { ...query, ...after } })),
    /** Changes under review, with `apply: review`. */
    heldChanges: (id: string, query: types.ListHeldChangesData['query'] = {}) =>
      itemsOf((after) => sdk.listHeldChanges({ ...at(id), query: { ...query, ...after } })),
    /** Counts of the changes under review, and groups of equal changes. */
    heldSummary: (id: string, query: types.SummarizeHeldChangesData['query'] = {}) =>
      dataOf(sdk.summarizeHeldChanges({ ...at(id), query })),
    /** Edits the text that a change under review proposes. */
    editHeldChange: (id: string, changeId: string, body: types.EditHeldChangeData['body']) =>
      dataOf(sdk.editHeldChange({ ...on, path: { job_id: id, change_id: changeId }, body })),
    acceptHeldChanges: (
      id: string,
      body: types.AcceptHeldChangesData['body'] = {},
      { idempotencyKey }: OnceOptions = {},
    ) => dataOf(sdk.acceptHeldChanges({ ...at(id), body, headers: onceOnly(idempotencyKey) })),
    rejectHeldChanges: (
      id: string,
      body: types.RejectHeldChangesData['body'] = {},
      { idempotencyKey }: OnceOptions = {},
    ) => dataOf(sdk.rejectHeldChanges({ ...at(id), body, headers: onceOnly(idempotencyKey) })),
    /** Takes back the memory changes of the batch; later edits stay. */
    revert: (id: string, body: types.RevertBatchData['body'] = {}, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.revertBatch({ ...at(id), body, headers: onceOnly(idempotencyKey) })),
    messages: (id: string, query: types.ListBatchMessagesData['query'] = {}) =>
      itemsOf(async (after) => {
        const { data, response } = await sdk.listBatchMessages({ ...at(id), query: { ...query, ...after } });
        return { data: data.messages, response };
      }),
  };
}
