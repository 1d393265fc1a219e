/** The kinds of signals, one for each flow that a signal can start. */
export const SIGNAL_KINDS = [
  'accept',
  'compose',
  'submit',
  'poll',
  'ingest',
  'tools',
  'trial',
  'finish',
  'cancel',
  'webhook',
] as const;

export type SignalKind = (typeof SIGNAL_KINDS)[number];

/** A request to look at a row: its uuid, or `'*'` for all due rows of the kind. It carries no other data. */
export interface Signal {
  readonly kind: SignalKind;
  readonly id: string;
}

/** `control` signals are handled in milliseconds; a `work` signal occupies its worker while the flow runs. */
export type QueueName = 'control' | 'work';

/** Maximum signals of one ring; above it, each kind is sent once as `'*'`. */
export const MAX_SIGNALS_PER_RING = 256;

const kinds: ReadonlySet<unknown> = new Set(SIGNAL_KINDS);
const longKinds: ReadonlySet<SignalKind> = new Set<SignalKind>(['ingest', 'tools', 'trial']);
const idPattern = /^(?:\*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** Parses a payload strictly; undefined when it is no signal. Other programs may write to the same store. */
export function parseSignal(payload: unknown): Signal | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  const { kind, id, ...rest } = payload as Record<string, unknown>;
  if (!kinds.has(kind) || typeof id !== 'string' || !idPattern.test(id)) return undefined;
  if (Object.keys(rest).length > 0) return undefined;
  return { kind: kind as SignalKind, id };
}

export function queueOf(kind: SignalKind): QueueName {
  return longKinds.has(kind) ? 'work' : 'control';
}

/** The distinct signals of a ring, and the number of malformed payloads. */
export interface SignalBatch {
  readonly signals: readonly Signal[];
  readonly malformed: number;
}

/** Drops malformed and duplicate signals; above {@link MAX_SIGNALS_PER_RING} each kind becomes one `'*'`. */
export function coalesce(given: readonly unknown[]): SignalBatch {
  const parsed = given.map(parseSignal).filter((signal) => signal !== undefined);
  const distinct = new Map(parsed.map((signal) => [`${signal.kind} ${signal.id}`, signal]));
  const signals =
    distinct.size <= MAX_SIGNALS_PER_RING
      ? [...distinct.values()]
      : [...new Set(parsed.map(({ kind }) => kind))].map((kind) => ({ kind, id: '*' }));
  return { signals, malformed: given.length - parsed.length };
}

/** Adds a signal to a map with one signal per kind; different rows of a kind become `'*'`. */
export function addByKind(byKind: Map<SignalKind, Signal>, signal: Signal): void {
  const { kind, id } = signal;
  const other = byKind.get(kind);
  byKind.set(kind, other === undefined || other.id === id ? signal : { kind, id: '*' });
}
