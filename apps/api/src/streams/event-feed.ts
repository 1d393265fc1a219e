import type { EventPlace, EventRow } from '@nightshift/db';
import { toEventResponse } from '../wire/to-progress.ts';
import { createLooks } from './looks.ts';
import type { EventSource } from './sse.ts';
import type { Waker } from './waker.ts';

/** Reads of the feed. */
export interface EventReads {
  readAfter(place: EventPlace, limit: number): Promise<readonly EventRow[]>;
  readLastPlace(): Promise<EventPlace>;
}

/** Passes new events on to the streams of this process. */
export interface EventFeed {
  /** The events after a place, without an end. */
  follow(after: EventPlace): EventSource;
}

const LOOK_INTERVAL_MS = 500;
/** Events of a read. */
const PAGE = 100;
/** Events that are kept for listeners, so that all of them cost one read. */
const KEPT = 500;

/** Creates the feed: one statement a look for all listeners, and none without a listener. */
export function createEventFeed(reads: EventReads, onError: (error: unknown) => void): EventFeed {
  const listeners = new Set<Waker>();
  let kept: readonly EventRow[] = [];
  /** The place before the kept events, and the last of them; null: not read since the first listener came. */
  let range: { readonly from: EventPlace; readonly to: EventPlace } | null = null;
  const look = async (): Promise<void> => {
    const { from, to } = range ?? { from: null, to: await reads.readLastPlace() };
    const rows = await reads.readAfter(to, PAGE);
    const all = [...kept, ...rows];
    const dropped = all.slice(0, Math.max(0, all.length - KEPT)).at(-1);
    kept = all.slice(-KEPT);
    range = { from: dropped ?? from ?? to, to: rows.at(-1) ?? to };
    if (rows.length > 0) for (const waker of listeners) waker.wake();
  };
  const readAfter = async (place: EventPlace): Promise<readonly EventRow[]> => {
    if (range === null || isBefore(place, range.from)) return reads.readAfter(place, PAGE);
    return kept.filter((event) => isBefore(place, event));
  };
  const looks = createLooks(
    LOOK_INTERVAL_MS,
    () => listeners.size > 0,
    look,
    onError,
    () => {
      kept = [];
      range = null;
    },
  );
  return {
    follow: (after) =>
      async function* events(waker) {
        listeners.add(waker);
        looks.begin();
        try {
          let place = after;
          for (;;) {
            const rows = await readAfter(place);
            for (const row of rows) {
              if (waker.hasEnded()) return;
              const data = toEventResponse(row);
              yield { id: data.id, event: data.type, data };
              place = row;
            }
            if (rows.length > 0) continue;
            const outcome = await waker.wait();
            if (outcome === 'ended') return;
            if (outcome === 'quiet') yield null;
          }
        } finally {
          listeners.delete(waker);
        }
      },
  };
}

function isBefore(place: EventPlace, other: EventPlace): boolean {
  const [a, b] = [BigInt(place.xid), BigInt(other.xid)];
  return a === b ? place.id < other.id : a < b;
}
