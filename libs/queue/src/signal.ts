/** What a signal may ask to look at: one kind per flow that can be woken. */
export const SIGNAL_KINDS = [
  'compose',
  'submit',
  'poll',
  'ingest',
  'tools',
  'finish',
  'cancel',
  'webhook',
] as const;

export type SignalKind = (typeof SIGNAL_KINDS)[number];

/** "Look at this row again": the row's uuid, or `'*'` for whatever is due of that kind. It never carries anything else. */
export interface Signal {
  readonly kind: SignalKind;
  readonly id: string;
}

/** `control` is answered in milliseconds; `work` keeps its worker busy for as long as the flow runs. */
export type QueueName = 'control' | 'work';

/** A call that would send more signals than this rings `'*'` once per kind instead. */
export const MAX_SIGNALS_PER_RING = 256;

const kinds: ReadonlySet<unknown> = new Set(SIGNAL_KINDS);
const longKinds: ReadonlySet<SignalKind> = new Set<SignalKind>(['ingest', 'tools']);
const idPattern = /^(?:\*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** The signal a payload is, or undefined for anything that is not exactly one: payloads come from a store others can write. */
export function parseSignal(payload: unknown): Signal | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  const { kind, id, ...rest } = payload as Record<string, unknown>;
  if (!kinds.has(kind) || typeof id !== 'string' || !idPattern.test(id)) return undefined;
  if (Object.keys(rest).length > 0) return undefined;
  return { kind: kind as SignalKind, id };
}

/** The queue that carries signals of this kind. */
export function queueOf(kind: SignalKind): QueueName {
  return longKinds.has(kind) ? 'work' : 'control';
}

/** What one ring sends: the distinct signals by queue, and how many of the given ones were no signals at all. */
export interface Peal {
  readonly byQueue: ReadonlyMap<QueueName, readonly Signal[]>;
  readonly malformed: number;
}

/** Drops what is malformed or said twice; beyond {@link MAX_SIGNALS_PER_RING} only the kinds are kept, each with `'*'`. */
export function coalesce(signals: readonly unknown[]): Peal {
  const distinct = new Map<string, Signal>();
  let malformed = 0;
  for (const given of signals) {
    const signal = parseSignal(given);
    if (signal === undefined) malformed += 1;
    else distinct.set(`${signal.kind} ${signal.id}`, signal);
  }
  const kept =
    distinct.size <= MAX_SIGNALS_PER_RING
      ? [...distinct.values()]
      : [...new Set([...distinct.values()].map(({ kind }) => kind))].map((kind) => ({ kind, id: '*' }));
  const byQueue = new Map<QueueName, Signal[]>();
  for (const signal of kept) {
    const name = queueOf(signal.kind);
    const list = byQueue.get(name);
    if (list === undefined) byQueue.set(name, [signal]);
    else list.push(signal);
  }
  return { byQueue, malformed };
}
