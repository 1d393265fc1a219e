import type { Batch, BatchProgress } from '@nightshift/client';
import { expect, test } from 'vitest';
import { refuse, sendJson } from '../../../libs/client/test/server.ts';
import { serveCommand } from './command.ts';

const counts = { completed: 5, failed: 0, expired: 0, cancelled: 0, total: 5 };
const BATCH = {
  ...{ id: 'job-1', name: null, state: 'completed', state_reason: null, apply: 'auto' },
  ...{ counts, usage: { cost_usd: '0.5' }, created_at: '2026-12-01T02:00:00Z' },
} as Batch;

const DONE: BatchProgress = {
  ...{ phase: 'done', percent: 100, ended: 5, total: 5, version: 1, eta: null, waiting_reason: null },
  calls: { done: 0, failed: 0, unknown: 0, open: 0 },
  ...{ runs_per_second: null, steps_at_provider: 0, oldest_step_sent_at: null, next_look_at: null },
};

/** Serves an ended batch, of which so many runs reached their step limit; undefined: the list of runs fails. */
const serveBatch = (batch: Batch, atStepLimit: number | undefined) =>
  serveCommand(({ url }, response) => {
    const path = url.pathname.replace(/\/$/, '');
    if (path.endsWith('/events')) refuse(response, 404, 'unknown_path');
    else if (path.endsWith('/progress')) sendJson(response, DONE);
    else if (path === '/v1/messages/batches') sendJson(response, [batch]);
    else if (path !== '/v1/runs') sendJson(response, batch);
    else if (atStepLimit === undefined) refuse(response, 500, 'internal');
    else
      sendJson(
        response,
        Array.from({ length: atStepLimit }, (_, place) => ({ id: `run-${place}` })),
      );
  });

test.each([
  [0, '5 runs completed, $0.50.'],
  [3, '5 runs completed (3 at their step limit), $0.50.'],
  [100, '5 runs completed (100 or more at their step limit), $0.50.'],
  [undefined, '5 runs completed, $0.50.'],
])('a wait tells the runs at their step limit, and keeps its exit code: %s', async (atStepLimit, told) => {
  const { run, received } = await serveBatch(BATCH, atStepLimit);
  const { exitCode, stderr } = await run('watch', 'job-1');
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining(`job-1 completed: ${told}`)]);
  const { url } = received.find((request) => request.url.pathname.startsWith('/v1/runs'))!;
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    ...{ batch_id: 'job-1', state: 'completed', stop_reason: 'max_steps' },
  });
});

test('ls has a column of the runs that a retry takes', async () => {
  const { run } = await serveBatch({ ...BATCH, counts: { ...BATCH.counts, failed: 2, expired: 1 } }, 0);
  const [head = '', row = ''] = (await run('ls')).stdout.split('\n');
  expect(head).toMatch(/ENDED +FAILED +TOTAL/);
  expect(row).toMatch(/ 8 +3 +5 /);
});
