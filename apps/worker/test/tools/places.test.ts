import { describe, expect, test, vi } from 'vitest';
import { createPlaces, type CallPool, type WantedCall } from '../../src/tools/places.ts';

const POOL: CallPool = { name: 'module', calls_max: 8, reserve: 2 };

function wanted(tool_name: string, count: number, rest: Partial<WantedCall> = {}): readonly WantedCall[] {
  return Array.from({ length: count }, (_, index) => ({
    pool: POOL,
    tool_name,
    run_id: `${tool_name} ${index}`,
    run_chars: 1,
    is_once: false,
    ...rest,
  }));
}

const never = (): void => undefined;

describe('places of a pool', () => {
  test('one tool leaves the reserve free, so that a call of another finds a place at once', () => {
    const places = createPlaces();
    expect(places.open(never).take(wanted('slow', 20))).toHaveLength(6);
    expect(places.open(never).take(wanted('quick', 1))).toHaveLength(1);
  });

  test('a tool at its share gets no freed place while another waits for one', () => {
    const places = createPlaces();
    const [slow, quick] = [places.open(never), places.open(never)];
    const held = slow.take(wanted('slow', 20));
    expect(quick.take(wanted('quick', 20))).toHaveLength(2);
    slow.free(held[0]!);
    expect(slow.take(wanted('slow', 14))).toHaveLength(0);
    expect(quick.take(wanted('quick', 18))).toHaveLength(1);
  });

  test('a tool without waiting neighbours takes more than an equal share', () => {
    const places = createPlaces();
    const [slow, quick] = [places.open(never), places.open(never)];
    expect(quick.take(wanted('quick', 1))).toHaveLength(1);
    expect(slow.take(wanted('slow', 20))).toHaveLength(6);
  });

  test('go to the chunk that was opened first, so that its runs end together', () => {
    const places = createPlaces();
    const [first, second] = [places.open(never), places.open(never)];
    const held = first.take(wanted('slow', 8));
    expect(second.take(wanted('slow', 8))).toHaveLength(0);
    first.free(held[0]!);
    expect(second.take(wanted('slow', 8))).toHaveLength(0);
    expect(first.take(wanted('slow', 2))).toHaveLength(1);
    first.close();
    expect(second.take(wanted('slow', 8))).toHaveLength(6);
  });

  test('go to the next chunk once the first takes its waiting calls back', () => {
    const places = createPlaces();
    const told = vi.fn();
    const [first, second] = [places.open(never), places.open(told)];
    for (const call of first.take(wanted('slow', 8))) first.free(call);
    expect(second.take(wanted('slow', 8))).toHaveLength(0);
    told.mockClear();
    first.withdraw();
    expect(told).toHaveBeenCalled();
    expect(second.take(wanted('slow', 8))).toHaveLength(6);
  });

  test('without a reserve its tool takes all places', () => {
    const own = { name: 'module fetch', calls_max: 3, reserve: 0 };
    expect(
      createPlaces()
        .open(never)
        .take(wanted('fetch', 5, { pool: own })),
    ).toHaveLength(3);
  });

  test('a waiting chunk is told of each freed place, and of those of a chunk that ends', () => {
    const places = createPlaces();
    const told = vi.fn();
    const first = places.open(never);
    const [call] = first.take(wanted('slow', 6));
    const second = places.open(told);
    expect(second.take(wanted('slow', 1))).toHaveLength(0);
    first.free(call!);
    expect(told).toHaveBeenCalledTimes(1);
    first.close();
    expect(second.take(wanted('slow', 6))).toHaveLength(6);
  });
});

test('calls that must not be repeated stay within their bound until their results are stored', () => {
  const places = createPlaces({ once_max: 2, result_chars_max: 1_000 });
  const [first, second] = [places.open(never), places.open(never)];
  const [call] = first.take(wanted('charge', 2, { is_once: true }));
  expect(second.take(wanted('charge', 1, { is_once: true }))).toHaveLength(0);
  first.free(call!);
  expect(second.take(wanted('charge', 1, { is_once: true }))).toHaveLength(0);
  first.stored(call!);
  expect(second.take(wanted('charge', 1, { is_once: true }))).toHaveLength(1);
});

test('a run starts only when the results of all its calls fit, and then all its calls may start', () => {
  const places = createPlaces({ once_max: 64, result_chars_max: 10 });
  const chunk = places.open(never);
  const [one, two] = [
    wanted('read', 2, { run_id: 'one', run_chars: 8 }),
    wanted('read', 2, { run_id: 'two', run_chars: 8 }),
  ];
  expect(chunk.take([one[0]!, two[0]!])).toEqual([one[0]]);
  expect(chunk.take([one[1]!, two[0]!])).toEqual([one[1]]);
  chunk.committed('one');
  expect(chunk.take(two)).toEqual(two);
});

test('a run with longer results than all may have starts alone', () => {
  const places = createPlaces({ once_max: 64, result_chars_max: 10 });
  expect(places.open(never).take(wanted('read', 1, { run_chars: 50 }))).toHaveLength(1);
});

test('a worker delays its next claim while the calls of two chunks wait for places', () => {
  const places = createPlaces();
  const chunks = Array.from({ length: 2 }, () => places.open(never));
  chunks[0]?.take(wanted('slow', 20));
  expect(places.claimDelayMs()).toBe(0);
  chunks[1]?.take(wanted('slow', 20));
  expect(places.claimDelayMs()).toBeGreaterThan(0);
  chunks[0]?.close();
  expect(places.claimDelayMs()).toBe(0);
});
