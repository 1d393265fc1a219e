import { NightshiftError } from '@nightshift/agent-core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { FlowReport } from '../../src/flow-parts/deps.ts';
import { createPump, type PumpLog } from '../../src/queues/pump.ts';

const IDLE: FlowReport = { flow: 'test', worked: false };
const WORKED: FlowReport = { flow: 'test', worked: true };

/** A flow whose runs end when the test says so. */
function scripted(): {
  flow: () => Promise<FlowReport>;
  /** Running runs, oldest first. */
  underWay: { end(report: FlowReport): void; fail(error: Error): void }[];
  runs: () => number;
} {
  const underWay: { end(report: FlowReport): void; fail(error: Error): void }[] = [];
  let runs = 0;
  return {
    underWay,
    runs: () => runs,
    flow: () =>
      new Promise((resolve, reject) => {
        runs += 1;
        const run = {
          end(report: FlowReport) {
            underWay.splice(underWay.indexOf(run), 1);
            resolve(report);
          },
          fail(error: Error) {
            underWay.splice(underWay.indexOf(run), 1);
            reject(error);
          },
        };
        underWay.push(run);
      }),
  };
}

function recorded(): PumpLog & { reports: FlowReport[]; failures: unknown[] } {
  const reports: FlowReport[] = [];
  const failures: unknown[] = [];
  return {
    reports,
    failures,
    report: (report) => void reports.push(report),
    failure: (_flow, error) => void failures.push(error),
  };
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

/** Ends all present and later runs without work. */
async function drainAll(script: ReturnType<typeof scripted>): Promise<void> {
  while (script.underWay.length > 0) {
    script.underWay[0]!.end(IDLE);
    await settled();
  }
}

test('a thousand kicks during a run lead to one more run', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  expect(script.runs()).toBe(1);
  for (let kick = 0; kick < 1_000; kick++) pump.kick();
  script.underWay[0]!.end(IDLE);
  await settled();
  expect(script.runs()).toBe(2);
  script.underWay[0]!.end(IDLE);
  await settled();
  expect(script.runs()).toBe(2);
});

test('a flow that found work runs again at once, and stops when it finds none', async () => {
  const script = scripted();
  const log = recorded();
  const pump = createPump('test', script.flow, log);
  pump.kick();
  for (const report of [WORKED, WORKED, IDLE]) {
    script.underWay[0]!.end(report);
    await settled();
  }
  expect(script.runs()).toBe(3);
  expect(script.underWay).toEqual([]);
  expect(log.reports).toEqual([WORKED, WORKED]);
});

test('a kick during a run that finds nothing is not lost', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  pump.kick();
  script.underWay[0]!.end(IDLE);
  await settled();
  expect(script.underWay).toHaveLength(1);
});

test.each([1, 2, 3, 4, 5, 6])(
  'a kick %i microtasks after the last report is not lost',
  async (microtasks) => {
    const script = scripted();
    const pump = createPump('test', script.flow, recorded());
    pump.kick();
    script.underWay[0]!.end(IDLE);
    for (let passed = 0; passed < microtasks; passed++) await Promise.resolve();
    pump.kick();
    await settled();
    expect(script.underWay).toHaveLength(1);
  },
);

test('found work fills the lanes, and there are never more runs than lanes', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded(), 3);
  pump.kick();
  expect(script.underWay).toHaveLength(1);
  for (let run = 0; run < 6; run++) {
    script.underWay[0]!.end(WORKED);
    await settled();
    expect(script.underWay.length).toBeLessThanOrEqual(3);
  }
  expect(script.underWay).toHaveLength(3);
  await drainAll(script);
  expect(script.runs()).toBeLessThan(12);
});

test('a kick uses a free lane while the others are busy', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded(), 2);
  pump.kick();
  pump.kick();
  pump.kick();
  expect(script.underWay).toHaveLength(2);
  script.underWay[1]!.end(WORKED);
  await settled();
  expect([script.underWay.length, script.runs()]).toEqual([2, 3]);
  await drainAll(script);
});

test('a failed flow is reported and retried with backoff up to half a minute', async () => {
  const script = scripted();
  const log = recorded();
  const pump = createPump('test', script.flow, log);
  pump.kick();
  for (const [failure, pauseMs] of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].entries()) {
    expect(script.underWay).toHaveLength(1);
    script.underWay[0]!.fail(new Error(`failure ${failure}`));
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(script.underWay).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(log.failures).toHaveLength(7);
  // A success resets the backoff.
  script.underWay[0]!.end(WORKED);
  await settled();
  script.underWay[0]!.fail(new Error('once more'));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(script.underWay).toHaveLength(1);
});

test('kicks do not shorten the pause after a failure, and take effect after it', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.fail(new Error('the database is away'));
  await settled();
  for (let kick = 0; kick < 10; kick++) pump.kick();
  await vi.advanceTimersByTimeAsync(999);
  expect(script.runs()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(script.runs()).toBe(2);
});

test('a drain during the pause after a failure does not wait for it', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.fail(new Error('the database is away'));
  await settled();
  await pump.drain();
  expect(script.runs()).toBe(1);
});

test('a lost lease is not reported, and the flow looks for other work at once', async () => {
  const script = scripted();
  const log = recorded();
  const pump = createPump('test', script.flow, log);
  pump.kick();
  script.underWay[0]!.fail(new NightshiftError('fenced', 'taken over'));
  await settled();
  expect(script.underWay).toHaveLength(1);
  expect(log.failures).toEqual([]);
});

test('a flow that keeps losing its leases does not spin', async () => {
  const log = recorded();
  let runs = 0;
  const pump = createPump(
    'test',
    async () => {
      runs += 1;
      throw new NightshiftError('fenced', 'taken over');
    },
    log,
  );
  pump.kick();
  await vi.advanceTimersByTimeAsync(500);
  expect(runs).toBeLessThan(10);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(runs).toBeGreaterThan(1);
  await pump.stop();
});

test('drain resolves only when no work is left', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  let drained = false;
  const drain = pump.drain().then(() => {
    drained = true;
  });
  script.underWay[0]!.end(WORKED);
  await settled();
  expect(drained).toBe(false);
  script.underWay[0]!.end(IDLE);
  await drain;
  expect(script.runs()).toBe(2);
});

test('a drain during a run waits for the run after it', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  let drained = false;
  const drain = pump.drain().then(() => {
    drained = true;
  });
  script.underWay[0]!.end(IDLE);
  await settled();
  expect(drained).toBe(false);
  script.underWay[0]!.end(IDLE);
  await drain;
  expect(script.runs()).toBe(2);
});

test('stop waits for running flows, and no run starts after it', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded(), 2);
  pump.kick();
  script.underWay[0]!.end(WORKED);
  await settled();
  expect(script.underWay).toHaveLength(2);
  let stopped = false;
  const stop = pump.stop().then(() => {
    stopped = true;
  });
  pump.kick();
  script.underWay[0]!.end(WORKED);
  await settled();
  expect(stopped).toBe(false);
  script.underWay[0]!.end(WORKED);
  await stop;
  pump.kick();
  await pump.drain();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(script.runs()).toBe(3);
});

test('a stopped pump drops its scheduled runs', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 50 });
  await settled();
  await pump.stop();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(script.runs()).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

test('a flow that returns a time runs again at that time', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 250 });
  await vi.advanceTimersByTimeAsync(249);
  expect(script.runs()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(script.runs()).toBe(2);
});

test('the earlier of two times is kept', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 200 });
  await settled();
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 60_000 });
  await vi.advanceTimersByTimeAsync(200);
  expect(script.runs()).toBe(3);
});

test('a time beyond the range of a timer does not fire at once', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 1e12 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(script.runs()).toBe(1);
});

test('kicks before and during a rest lead to one run after it', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  pump.kick();
  script.underWay[0]!.end({ ...IDLE, again_in_ms: 1_000, rest_ms: 250 });
  await settled();
  pump.kick();
  await vi.advanceTimersByTimeAsync(200);
  pump.kick();
  expect(script.runs()).toBe(1);
  await vi.advanceTimersByTimeAsync(50);
  expect(script.runs()).toBe(2);
  script.underWay[0]!.end({ ...IDLE, rest_ms: 250 });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(script.runs()).toBe(2);
  pump.kick();
  expect(script.runs()).toBe(3);
});

test('after a rest of 0 ms a flow runs again only on a kick or at its time', async () => {
  const script = scripted();
  const pump = createPump('test', script.flow, recorded());
  pump.kick();
  script.underWay[0]!.end({ ...WORKED, rest_ms: 0, again_in_ms: 1_000 });
  await settled();
  expect(script.runs()).toBe(1);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(script.runs()).toBe(2);

  pump.kick();
  script.underWay[0]!.end({ ...WORKED, rest_ms: 0 });
  await vi.advanceTimersByTimeAsync(1);
  expect(script.runs()).toBe(3);
  script.underWay[0]!.end({ ...WORKED, rest_ms: 0 });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(script.runs()).toBe(3);
});
