import type { Bell, Signal } from '@nightshift/queue';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createWorkerBell, RING_INTERVAL_MS } from '../../src/queues/worker-bell.ts';

const COMPOSE: Signal = { kind: 'compose', id: '*' };
const TOOLS: Signal = { kind: 'tools', id: '*' };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A bell that records its signals. */
function queue(backend: Bell['backend'] = 'postgres'): Bell & {
  readonly sent: (readonly Signal[])[];
  readonly at: { closed: boolean };
} {
  const sent: (readonly Signal[])[] = [];
  const at = { closed: false };
  return {
    backend,
    sent,
    at,
    ring: (signals) => {
      sent.push(signals);
      return Promise.resolve();
    },
    close: () => {
      at.closed = true;
      return Promise.resolve();
    },
  };
}

describe('the bell of a worker', () => {
  test.each(['postgres', 'none'] as const)('kicks its own pumps at once (%s)', async (backend) => {
    const kicked: string[] = [];
    const bell = createWorkerBell(queue(backend), (kind) => kicked.push(kind));
    await bell.ring([COMPOSE, TOOLS]);
    await bell.ring([COMPOSE]);
    expect(kicked).toEqual(['compose', 'tools', 'compose']);
  });

  test('rings other workers at once after a pause', async () => {
    const outside = queue();
    const bell = createWorkerBell(outside, () => undefined);
    await bell.ring([COMPOSE]);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS * 2);
    await bell.ring([TOOLS]);
    expect(outside.sent).toEqual([[COMPOSE], [TOOLS]]);
  });

  test('sends the signals of an interval in one ring', async () => {
    const outside = queue();
    const bell = createWorkerBell(outside, () => undefined);
    await bell.ring([COMPOSE]);
    for (let i = 0; i < 50; i++) await bell.ring([COMPOSE, TOOLS]);
    expect(outside.sent).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS);
    expect(outside.sent).toHaveLength(2);
    expect(outside.sent[1]).toEqual([COMPOSE, TOOLS]);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS * 5);
    expect(outside.sent).toHaveLength(2);
  });

  test('sends up to eight distinct signals of a kind, so that as many workers wake', async () => {
    const outside = queue();
    const bell = createWorkerBell(outside, () => undefined);
    await bell.ring([COMPOSE]);
    const ended = Array.from({ length: 20 }, (_, index): Signal => ({
      kind: 'ingest',
      id: `batch-${index}`,
    }));
    await bell.ring([...ended, ...ended]);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS);
    expect(outside.sent[1]).toEqual(ended.slice(0, 8));
  });

  test('recognizes each signal of its last ring once, and never a `*`', async () => {
    const bell = createWorkerBell(queue(), () => undefined);
    const ours: Signal = { kind: 'submit', id: 'batch-1' };
    await bell.ring([ours, COMPOSE]);
    expect(bell.takeOwnSignal({ kind: 'submit', id: 'batch-2' })).toBe(false);
    expect(bell.takeOwnSignal({ kind: 'poll', id: 'batch-1' })).toBe(false);
    expect(bell.takeOwnSignal(COMPOSE)).toBe(false);
    expect(bell.takeOwnSignal(ours)).toBe(true);
    expect(bell.takeOwnSignal(ours)).toBe(false);

    await bell.ring([ours]);
    expect(bell.takeOwnSignal(ours)).toBe(false);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS * 2);
    expect(bell.takeOwnSignal(ours)).toBe(false);
  });

  test('sends the waiting signals before it closes', async () => {
    const outside = queue();
    const bell = createWorkerBell(outside, () => undefined);
    await bell.ring([COMPOSE]);
    await bell.ring([TOOLS]);
    await bell.close();
    expect(outside.sent).toEqual([[COMPOSE], [TOOLS]]);
    expect(outside.at.closed).toBe(true);
    await vi.advanceTimersByTimeAsync(RING_INTERVAL_MS * 5);
    expect(outside.sent).toHaveLength(2);
  });
});
