import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';

/** The operations of runs and steps. */
export function runsOf(on: Call) {
  const at = (id: string) => ({ ...on, path: { run_id: id } });
  return {
    retrieve: (id: string) => dataOf(sdk.retrieveRun(at(id))),
    list: (query: types.ListRunsData['query'] = {}) =>
      itemsOf((after) => sdk.listRuns({ ...on, query: { ...query, ...after } })),
    usage: (id: string) => dataOf(sdk.retrieveRunUsage(at(id))),
    messages: (id: string, query: types.ListRunMessagesData['query'] = {}) =>
      itemsOf((after) => sdk.listRunMessages({ ...at(id), query: { ...query, ...after } })),
    steps: (id: string, query: types.ListStepsOfRunData['query'] = {}) =>
      itemsOf((after) => sdk.listStepsOfRun({ ...at(id), query: { ...query, ...after } })),
    toolCalls: (id: string, query: types.ListToolCallsOfRunData['query'] = {}) =>
      itemsOf((after) => sdk.listToolCallsOfRun({ ...at(id), query: { ...query, ...after } })),
    /** Where the time of a run went. */
    timeline: (id: string) => dataOf(sdk.retrieveRunTimeline(at(id))),
    /** Steps of all runs. */
    allSteps: (query: types.ListStepsData['query'] = {}) =>
      itemsOf((after) => sdk.listSteps({ ...on, query: { ...query, ...after } })),
    step: (stepId: string) => dataOf(sdk.retrieveStep({ ...on, path: { step_id: stepId } })),
    /** What the model saw. */
    stepRequest: (stepId: string) => dataOf(sdk.retrieveStepRequest({ ...on, path: { step_id: stepId } })),
    cancel: (id: string) => dataOf(sdk.cancelRun(at(id))),
    /** Answers the tool calls of a run that waits for its caller. */
    sendToolResults: (id: string, body: types.ToolResults) =>
      dataOf(sdk.sendToolResults({ ...at(id), body })),
    /** Failed runs of the installation, latest first. */
    failed: (query: types.ListFailedRunsData['query'] = {}) =>
      itemsOf((after) => sdk.listFailedRuns({ ...on, query: { ...query, ...after } })),
  };
}
