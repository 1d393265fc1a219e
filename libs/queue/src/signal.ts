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

/** The distinct signals of a ring, and the number of payloads that were no signals. */
export interface SignalBatch {
  readonly signals: readonly Signal[];
  readonly malformed: number;
}

/** Drops malformed and repeated signals; beyond {@link MAX_SIGNALS_PER_RING} each kind is rung once with `'*'`. */
export function coalesce(given: readonly unknown[]): SignalBatch {
  const parsed = given.map(parseSignal).filter((signal) => signal !== undefined);
  const distinct = new Map(parsed.map((signal) => [`${signal.kind} ${signal.id}`, signal]));
  const signals =
    distinct.size <= MAX_SIGNALS_PER_RING
      ? [...distinct.values()]
      : [...new Set(parsed.map(({ kind }) => kind))].map((kind) => ({ kind, id: '*' }));
  return { signals, malformed: given.length - parsed.length };
}

/** Adds a signal to at most one signal of each kind: two different rows of a kind become `'*'`. */
export function addByKind(byKind: Map<SignalKind, Signal>, signal: Signal): void {
  const { kind, id } = signal;
  const other = byKind.get(kind);
  byKind.set(kind, other === undefined || other.id === id ? signal : { kind, id: '*' });
}
