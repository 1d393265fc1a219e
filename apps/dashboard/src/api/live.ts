import type { Event as LiveEvent } from '@nightshift/client';
import { useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';

type Message =
  | { readonly kind: 'event'; readonly event: LiveEvent }
  | { readonly kind: 'connected'; readonly connected: boolean };

const CHANNEL = 'nightshift-live';

let connected = true;
const listeners = new Set<() => void>();

function setConnected(value: boolean): void {
  if (connected === value) return;
  connected = value;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Keeps what is shown fresh, and tells whether the API is connected. All tabs of a browser share one event stream: the tab
 * that holds a lock reads it and passes events on. The browser resumes the stream by `Last-Event-ID`.
 */
export function useLive(): boolean {
  const queries = useQueryClient();
  useEffect(() => {
    const channel = new BroadcastChannel(CHANNEL);
    let reading = new AbortController();
    const take = (message: Message): void => {
      if (message.kind === 'connected') {
        // What happened meanwhile is not told again by a stream that was opened anew.
        if (message.connected && !connected) void queries.invalidateQueries({ refetchType: shownOnly() });
        setConnected(message.connected);
      } else refresh(queries, message.event);
    };
    channel.onmessage = ({ data }: MessageEvent<Message>) => take(data);
    const tell = (message: Message): void => {
      channel.postMessage(message);
      take(message);
    };
    /** Reads the stream while the tab is shown: a hidden tab leaves it to others, and is refreshed when it is shown again. */
    const follow = (): void => {
      reading.abort();
      if (document.hidden) return;
      reading = new AbortController();
      const { signal } = reading;
      navigator.locks.request(CHANNEL, { signal }, () => readStream(tell, signal)).catch(() => undefined);
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      reading.abort();
      channel.close();
    };
  }, [queries]);
  return useSyncExternalStore(subscribe, () => connected);
}

/** Time until a refused stream is asked for again. Unit: milliseconds. */
const REOPEN_MS = 5_000;

/** Reads the stream until the signal; the lock is held meanwhile. A browser opens a lost stream again, but not a refused one. */
function readStream(tell: (message: Message) => void, signal: AbortSignal): Promise<void> {
  let stream: EventSource;
  let reopening: ReturnType<typeof setTimeout> | undefined;
  const open = (): void => {
    stream = new EventSource('/v1/events');
    stream.onopen = () => tell({ kind: 'connected', connected: true });
    stream.onerror = () => {
      tell({ kind: 'connected', connected: false });
      if (stream.readyState === EventSource.CLOSED) reopening = setTimeout(open, REOPEN_MS);
    };
    const onEvent = ({ data }: MessageEvent<string>): void =>
      tell({ kind: 'event', event: JSON.parse(data) as LiveEvent });
    for (const type of Object.keys(EVENT_TYPES)) stream.addEventListener(type, onEvent);
  };
  open();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      clearTimeout(reopening);
      stream.close();
      resolve();
    });
  });
}

/** The stream names each event by its type, and a browser passes on only those that are listened to. */
const EVENT_TYPES: Readonly<Record<LiveEvent['type'], true>> = {
  'batch.receiving': true,
  'batch.running': true,
  'batch.paused': true,
  'batch.cancelling': true,
  'batch.completed': true,
  'batch.cancelled': true,
  'batch.failed': true,
  'batch.review_ready': true,
  'batch.requires_action': true,
  'schedule.tick': true,
};

/** A hidden tab reads nothing: what is stale is read when the tab is shown again. */
const shownOnly = (): 'none' | 'active' => (document.hidden ? 'none' : 'active');

/** Time in which events are gathered, so that many at once read each list once. Unit: milliseconds. */
const GATHER_MS = 200;

/** Keys of the queries to read again; empty unless events are being gathered. */
const gathered = new Map<string, readonly string[]>();

function refresh(queries: QueryClient, event: LiveEvent): void {
  if (gathered.size === 0)
    setTimeout(() => {
      for (const queryKey of gathered.values())
        void queries.invalidateQueries({ queryKey, refetchType: shownOnly() });
      gathered.clear();
    }, GATHER_MS);
  for (const key of keysOf(event)) gathered.set(key.join(' '), key);
}

function keysOf({ type, job_id, schedule_id }: LiveEvent): readonly (readonly string[])[] {
  return [
    ['overview'],
    ...(job_id === null ? [] : [['batches'], ['batch', job_id]]),
    ...(schedule_id === null ? [] : [['schedules']]),
    ...(type === 'batch.review_ready' ? [['review', 'batches']] : []),
  ];
}
