import type {} from '../global-setup.ts';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { auditInvariants, connect } from '@nightshift/db';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { openStackHouse, type StackHouse, type WireBatch } from './house.ts';

// Real processes on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let dataDir: string;
let house: StackHouse;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'nightshift-retries-'));
  house = await openStackHouse({
    dataDir,
    simulatorLatency: 'uniform:50-200',
    workers: 1,
    // Long enough between attempts to look at a run that waits.
    workerEnv: { RETRY_DELAY_MS: '2000' },
  });
});
afterAll(async () => {
  await house.close();
  await rm(dataDir, { recursive: true, force: true });
});

interface Shown extends WireBatch {
  readonly state_reason: string | null;
  readonly counts: WireBatch['counts'] & { readonly retrying: number; readonly failed: number };
}

interface ShownRun {
  readonly id: string;
  readonly state: string;
  readonly attempts: number;
  readonly last_error: object | null;
  readonly next_attempt_at: string | null;
  readonly error: object | null;
}

const RUNS = 300;
const BAD = 50;
const OVERLOADED = { type: 'overloaded_error', message: 'Overloaded' };

test('50 of 300 requests that fail for ever: the others are there, every surface names the error, and the batch ends', async () => {
  await house.control('POST', '/rules', {
    op: 'request',
    match: { contains: 'fails for ever' },
    outcome: { type: 'errored', error_type: OVERLOADED.type, message: OVERLOADED.message },
  });
  const agent_id = await house.createAgent('patient', []);
  const { id } = await house.client.post<Shown>('/v1/messages/batches', {
    requests: Array.from({ length: RUNS }, (_, place) => ({
      agent_id,
      conversation: 'isolated',
      input: place < BAD ? 'fails for ever' : `task ${place} ⟦sim:fixed⟧`,
    })),
  });
  const read = (): Promise<Shown> => house.client.get<Shown>(`/v1/messages/batches/${id}`);
  const list = (states: string): Promise<readonly ShownRun[]> =>
    house.client.get<readonly ShownRun[]>(`/v1/runs/?batch_id=${id}&limit=100&${states}`);
  const reason = '50 runs wait to be tried again: overloaded_error: Overloaded';
  for (;;) {
    const { counts, state_reason } = await read();
    if (counts.retrying === BAD && counts.completed === RUNS - BAD) {
      expect(state_reason).toBe(reason);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const waiting = await list('active=true');
  expect(waiting).toHaveLength(BAD);
  for (const run of waiting) {
    expect(run).toMatchObject({ last_error: OVERLOADED, error: null });
    expect(run.attempts).toBeGreaterThanOrEqual(1);
  }
  const metrics = await fetch(`${house.stack.apiUrl}/metrics`, {
    headers: { authorization: `Bearer ${house.stack.apiKey}` },
  });
  expect(await metrics.text()).toMatch(/^nightshift_failed_lines_total\{type="overloaded_error"\} \d+$/m);

  await house.untilStatus(id, 'completed', 'failed');
  expect(await read()).toMatchObject({
    status: 'completed',
    state_reason: null,
    counts: { completed: RUNS - BAD, failed: BAD, retrying: 0 },
  });
  for (const run of await list('statuses=failed')) {
    expect(run).toMatchObject({ attempts: 4, error: OVERLOADED, last_error: null });
  }
  const lines = workerLog().filter((line) => 'failures' in line);
  expect(lines.length).toBeGreaterThanOrEqual(4);
  for (const line of lines) {
    expect(line).toMatchObject({ level: 40, flow: 'ingest-results' });
    expect(line['failures']).toMatch(
      /^\d+ × overloaded_error: Overloaded \((run-[0-9a-f-]{36} of job-[0-9a-f-]{36}(, )?){1,3}\)$/,
    );
  }
  expect(await auditInvariants(connect(house.stack.pool))).toEqual([]);
});

/** Reads the worker's log. */
function workerLog(): readonly Record<string, unknown>[] {
  return readFileSync(join(dataDir, 'logs/worker-1.log'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
