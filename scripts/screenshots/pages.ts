import type { SampleNight } from './sample-night.ts';

/** A page of the dashboard: its name in a file, and its address. */
export type ShownPage = readonly [name: string, path: string];

/** Returns every page of the dashboard, with the ids of a sample night. */
export function pagesOf(night: SampleNight): readonly ShownPage[] {
  return [
    ['overview', '/'],
    ['batches', '/batches'],
    ['new-batch', '/batches/new'],
    ['batch', `/batches/${night.batchId}`],
    ['run', `/runs/${night.runId}`],
    ['failed-run', `/runs/${night.failedRunId}`],
    ['run-request', `/runs/${night.failedRunId}?tab=request`],
    ['reviews', '/review'],
    ['review', `/review/${night.reviewId}`],
    ['memories', '/memories'],
    ['agent', `/memories/${night.agentId}`],
    ['block', `/blocks/${night.blockId}`],
    ['schedules', '/schedules'],
    ['new-schedule', '/schedules/new'],
    ['schedule', `/schedules/${night.scheduleId}`],
    ['workers', '/workers'],
    ['settings', '/settings'],
  ];
}
