import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  createPlaces,
  type CallPool,
  type ChunkPlaces,
  type Places,
  type WantedCall,
} from '../../src/tools/places.ts';

const POOL: CallPool = { name: 'http', calls_max: 10, reserve: 2 };
const FETCH = { id: 'f', name: 'fetch' };

let places: Places;
beforeEach(() => {
  vi.useFakeTimers();
  places = createPlaces();
  places.grants.setLimited([FETCH]);
});
afterEach(() => vi.useRealTimers());

const wanted = (tool_name: string, count: number): readonly WantedCall[] =>
  Array.from({ length: count }, (_, index) => ({
    ...{ pool: POOL, tool_name, run_id: `${tool_name} ${index}`, run_chars: 1, is_once: false },
  }));

const never = (): void => undefined;

/** Opens a chunk and asks for its calls. */
function open(calls: readonly WantedCall[], onFreed = never): ChunkPlaces {
  const chunk = places.open(onFreed);
  chunk.take(calls);
  return chunk;
}

function grant(placesMax: number | null, tokens: number | null = null): void {
  places.grants.begin();
  places.grants.end({ grants: [{ tool_id: 'f', places: placesMax, tokens }], trustMs: 5_000 });
}

test('a call of a limited tool waits for a grant, and is woken by it', () => {
  const told = vi.fn();
  const calls = wanted('fetch', 4);
  const chunk = open(calls, told);
  expect(places.grants.need()).toBe('first');
  expect(places.grants.begin()).toEqual([{ tool_id: 'f', under_way: 0, waiting: 4, unused: 0 }]);
  places.grants.end({ grants: [{ tool_id: 'f', places: 2, tokens: null }], trustMs: 5_000 });
  expect(told).toHaveBeenCalledTimes(1);
  const taken = chunk.take(calls);
  expect(taken).toEqual(calls.slice(0, 2));
  chunk.free(taken[0]!);
  expect(chunk.take(calls.slice(2))).toEqual([calls[2]]);
});

test('a tool that comes during a request gets no grant by its answer', () => {
  places.grants.setLimited([FETCH, { id: 'b', name: 'book' }]);
  open(wanted('fetch', 1));
  places.grants.begin();
  const calls = wanted('book', 3);
  const late = open(calls);
  places.grants.end({ grants: [{ tool_id: 'f', places: 1, tokens: null }], trustMs: 5_000 });
  expect(late.take(calls)).toEqual([]);
  expect(places.grants.need()).toBe('first');
  places.grants.begin();
  places.grants.end({ grants: [{ tool_id: 'b', places: 1, tokens: null }], trustMs: 5_000 });
  expect(late.take(calls)).toEqual([calls[0]]);
});

test('no call starts while a request is under way, after one that failed, or under an old grant', () => {
  const calls = wanted('fetch', 3);
  const chunk = open(calls);
  grant(2);
  places.grants.begin();
  expect(chunk.take(calls)).toEqual([]);
  places.grants.end(null);
  expect(chunk.take(calls)).toEqual([]);
  grant(2);
  vi.advanceTimersByTime(5_001);
  expect(chunk.take(calls)).toEqual([]);
  grant(2);
  expect(chunk.take(calls)).toHaveLength(2);
});

test('each start uses a token, and unused tokens go back', () => {
  const calls = wanted('fetch', 9);
  const chunk = open(calls);
  grant(null, 5);
  expect(chunk.take(calls.slice(0, 3))).toHaveLength(3);
  expect(places.grants.begin()).toEqual([{ tool_id: 'f', under_way: 3, waiting: 0, unused: 2 }]);
});

test('the first chunk goes first', () => {
  const [first, second] = [wanted('fetch', 2), wanted('fetch', 2)];
  const [one, two] = [open(first), open(second)];
  grant(1);
  expect(two.take(second)).toEqual([]);
  expect(one.take(first)).toHaveLength(1);
  one.close();
  expect(two.take(second)).toHaveLength(1);
});

test('waiting calls of a tool at its limit take no share from a tool beside it', () => {
  const limited = open(wanted('fetch', 20));
  grant(1);
  expect(limited.take(wanted('fetch', 20))).toHaveLength(1);
  expect(places.open(never).take(wanted('other', 20))).toHaveLength(8);
});

test('of chunks that only wait for limits two stay, and of first chunks of their tools six', () => {
  const names = Array.from({ length: 7 }, (_, index) => `tool ${index}`);
  places.grants.setLimited([FETCH, ...names.map((name) => ({ id: name, name }))]);
  const ofOne = Array.from({ length: 3 }, () => open(wanted('fetch', 5)));
  const close = (): void => {
    places.grants.begin();
    const grants = [...names, 'f'].map((tool_id) => ({ tool_id, places: 0, tokens: null }));
    places.grants.end({ grants, trustMs: 5_000 });
  };
  close();
  for (const chunk of ofOne) chunk.take(wanted('fetch', 5));
  expect(ofOne.map((chunk) => chunk.isSurplus())).toEqual([false, false, true]);
  expect(places.claimDelayMs()).toBe(0);
  ofOne[2]!.close();
  const ofMany = names.map((name) => open(wanted(name, 1)));
  close();
  for (const [index, chunk] of ofMany.entries()) chunk.take(wanted(names[index]!, 1));
  expect(ofMany.map((chunk) => chunk.isSurplus())).toEqual([false, false, false, false, true, true, true]);
});

test('calls that end during a request are given back with the next', () => {
  const calls = wanted('fetch', 1);
  const chunk = open(calls);
  grant(1);
  chunk.take(calls);
  places.grants.begin();
  chunk.close();
  places.grants.end({ grants: [{ tool_id: 'f', places: 1, tokens: null }], trustMs: 5_000 });
  expect(places.grants.need()).toBe('more');
  expect(places.grants.begin()).toEqual([{ tool_id: 'f', under_way: 0, waiting: 0, unused: 0 }]);
});

test('a tool without demand is given back with the next request, and then forgotten', () => {
  const calls = wanted('fetch', 1);
  const chunk = open(calls);
  grant(1);
  chunk.take(calls);
  chunk.close();
  expect(places.grants.need()).toBe('more');
  grant(0);
  expect(places.grants.need()).toBe('none');
});

test('a worker that takes no more work starts no call of a limited tool, and its chunks leave', () => {
  const calls = wanted('fetch', 2);
  const chunk = open(calls);
  grant(2);
  places.grants.close();
  expect(chunk.take(calls)).toEqual([]);
  expect(chunk.isSurplus()).toBe(true);
});
