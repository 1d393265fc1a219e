import { createBatchStore } from './batch.ts';
import type { Batch, BatchStore } from './batch.ts';
import { createPrefixCache } from './cache/prefix-cache.ts';
import type { PrefixCache } from './cache/prefix-cache.ts';
import type { SimulatorClock } from './clock.ts';
import { createRules } from './faults/rules.ts';
import type { Rules } from './faults/rules.ts';
import { createJournal } from './journal.ts';
import type { Journal } from './journal.ts';
import { createLedger } from './ledger.ts';
import type { Ledger } from './ledger.ts';
import { changeSettings } from './settings.ts';
import type { Settings } from './settings.ts';

/** The whole state of a running simulator. */
export interface SimulatorState {
  readonly clock: SimulatorClock;
  /** The folder for spooled bodies and results. */
  readonly spoolDir: string;
  /** The only accepted key; null: any non-empty key. */
  readonly apiKey: string | null;
  readonly rules: Rules;
  /** Part of the ids of batches and HTTP requests, so that they differ after a restart. */
  readonly instance: string;
  /** Aborted when the simulator stops; ends long work early. */
  readonly stopped: AbortSignal;
  seed: string;
  settings: Settings;
  batches: BatchStore;
  /** The prompt cache of all workspaces. */
  cache: PrefixCache;
  ledger: Ledger;
  journal: Journal;
  /** Errors by rule, and by request content or logical key. */
  errorCounts: Map<string, number>;
  requestCount: number;
  readonly opCounts: Map<string, number>;
  /** Message requests in processing, across all workspaces. */
  queued: number;
  /** Rate-limit buckets by workspace. */
  readonly budgets: Map<string, Budget>;
}

/** The level of a token bucket at `atMs` of the simulator's clock. */
export interface Budget {
  tokens: number;
  atMs: number;
}

/** Creates an empty state. */
export function createState(
  fixed: Pick<SimulatorState, 'clock' | 'spoolDir' | 'apiKey' | 'stopped' | 'instance'>,
  seed: string,
  settings: Settings,
): SimulatorState {
  const state: SimulatorState = {
    ...fixed,
    rules: createRules(() => state.seed),
    seed,
    settings,
    batches: createBatchStore(),
    cache: createPrefixCache(() => oldestUseMs(state)),
    ledger: createLedger(),
    journal: createJournal(),
    errorCounts: new Map(),
    requestCount: 0,
    opCounts: new Map(),
    queued: 0,
    budgets: new Map(),
  };
  applyLogicalKey(state);
  return state;
}

/** Returns the earliest time at which a request may still be processed: the creation of the oldest open batch. */
function oldestUseMs({ batches, clock }: SimulatorState): number {
  const open = batches.all().find(({ status }) => status !== 'ended');
  return Math.min(open?.created_at_ms ?? Number.POSITIVE_INFINITY, clock.now());
}

function applyLogicalKey(state: SimulatorState): void {
  const pattern = state.settings.logical_key;
  state.ledger.setLogicalKey(pattern === null ? null : new RegExp(pattern));
}

/**
 * Changes the settings.
 * Throws: ZodError that names the member, before any change.
 */
export function configure(state: SimulatorState, change: unknown): void {
  state.settings = changeSettings(state.settings, change);
  applyLogicalKey(state);
}

/**
 * Deletes all batches, rules, journal entries and billings, and restarts from `seed`. Settings and clock stay.
 * Returns the deleted batches.
 */
export function resetState(state: SimulatorState, seed: string): readonly Batch[] {
  const forgotten = state.batches.all();
  state.seed = seed;
  state.rules.clear();
  state.batches = createBatchStore();
  state.cache = createPrefixCache(() => oldestUseMs(state));
  state.ledger = createLedger();
  state.journal = createJournal();
  state.errorCounts = new Map();
  state.requestCount = 0;
  state.opCounts.clear();
  state.queued = 0;
  state.budgets.clear();
  applyLogicalKey(state);
  return forgotten;
}
