import type { BatchProgress, WatchedBatch } from '@nightshift/db';
import type { ProgressResponse } from '../schemas/progress.ts';
import { toProgressResponse, versionTag } from '../wire/to-progress.ts';
import { createLooks } from './looks.ts';
import type { EventSource } from './sse.ts';
import type { Waker } from './waker.ts';

/** The state of a batch and its version. */
interface WatchedState {
  readonly version: number;
  readonly tag: string;
  readonly progress: ProgressResponse;
}

interface Listener {
  readonly waker: Waker;
  /** As read after the listener came; null: not yet. */
  state: WatchedState | null;
  /** The batch was deleted. */
  isGone: boolean;
}

interface WatchedEntry {
  readonly listeners: Set<Listener>;
  state: WatchedState | null;
}

/** Watches batches for the streams of this process. */
export interface BatchWatch {
  /** The states of a batch after the one that the client has, up to its end. */
  follow(batchId: string, knownTag: string | null): EventSource;
}

/** Interval of looks, which bounds the events of a stream to four a second. Unit: milliseconds. */
export const LOOK_INTERVAL_MS = 250;
/** One look in this many reads batches of known versions too: looks at the provider do not change a version. */
const FULL_LOOK_EVERY = 8;

/**
 * Creates the watch: one statement a look for all batches with listeners, and none without a listener. Listeners share the
 * latest state of their batch, and none keeps a queue.
 */
export function createBatchWatch(
  read: (batches: readonly WatchedBatch[]) => Promise<readonly BatchProgress[]>,
  onError: (error: unknown) => void,
): BatchWatch {
  const watched = new Map<string, WatchedEntry>();
  let count = 0;
  const look = async (): Promise<void> => {
    const isFull = count++ % FULL_LOOK_EVERY === 0;
    const asked = [...watched].map(([id, entry]) => {
      const known_version = isFull ? null : (entry.state?.version ?? null);
      // Listeners that come during the read wait for the next: their client may have seen a later state.
      return { id, known_version, entry, listeners: [...entry.listeners] };
    });
    const found = new Map(
      (await read(asked.map(({ id, known_version }) => ({ id, known_version })))).map((each) => [
        each.id,
        each,
      ]),
    );
    for (const { id, known_version, entry, listeners } of asked) {
      const progress = found.get(id);
      const isGone = progress === undefined && known_version === null;
      if (progress !== undefined) entry.state = stateOf(progress);
      for (const listener of listeners) tell(listener, entry.state, isGone);
    }
  };
  const looks = createLooks(LOOK_INTERVAL_MS, () => watched.size > 0, look, onError);
  const add = (batchId: string, listener: Listener): void => {
    const entry = watched.get(batchId) ?? { listeners: new Set(), state: null };
    watched.set(batchId, entry);
    entry.listeners.add(listener);
    looks.begin();
  };
  const remove = (batchId: string, listener: Listener): void => {
    const entry = watched.get(batchId);
    entry?.listeners.delete(listener);
    if (entry?.listeners.size === 0) watched.delete(batchId);
  };
  return {
    follow: (batchId, knownTag) =>
      async function* states(waker) {
        const listener: Listener = { waker, state: null, isGone: false };
        add(batchId, listener);
        try {
          let sent = knownTag;
          for (;;) {
            const outcome = await waker.wait();
            if (outcome === 'ended' || listener.isGone) return;
            if (outcome === 'quiet') {
              yield null;
              continue;
            }
            const { state } = listener;
            if (state === null || state.tag === sent) continue;
            sent = state.tag;
            const isDone = state.progress.phase === 'done';
            yield { id: state.tag, event: isDone ? 'done' : 'progress', data: state.progress };
            if (isDone) return;
          }
        } finally {
          remove(batchId, listener);
        }
      },
  };
}

function stateOf(batch: BatchProgress): WatchedState {
  const progress = toProgressResponse(batch);
  return { version: batch.version, tag: versionTag(batch.version, progress), progress };
}

function tell(listener: Listener, state: WatchedState | null, isGone: boolean): void {
  if (!isGone && (state === null || listener.state?.tag === state.tag)) return;
  listener.state = state;
  listener.isGone = isGone;
  listener.waker.wake();
}
