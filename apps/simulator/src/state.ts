import { createBatchStore } from './batch.ts';
import type { Batch, BatchStore } from './batch.ts';
import type { SimulatorClock } from './clock.ts';
import { createRules } from './faults/rules.ts';
import type { Rules } from './faults/rules.ts';
import { createJournal } from './journal.ts';
import type { Journal } from './journal.ts';
import { createLedger } from './ledger.ts';
import type { Ledger } from './ledger.ts';
import { changeSettings } from './settings.ts';
import type { Settings } from './settings.ts';

/** Everything a running simulator knows. One object, passed to whoever needs a part of it. */
export interface SimulatorState {
  readonly clock: SimulatorClock;
  /** The folder for spooled bodies and results. */
  readonly spoolDir: string;
  /** The only key that is accepted; null: any that is not empty. */
  readonly apiKey: string | null;
  readonly rules: Rules;
  /** Part of the ids of batches and HTTP requests, so that a simulator that is started again does not repeat them. */
  readonly instance: string;
  /** Aborted when the simulator stops: whatever takes long then ends early. */
  readonly stopped: AbortSignal;
  seed: string;
  settings: Settings;
  batches: BatchStore;
  ledger: Ledger;
  journal: Journal;
  /** How often each request content or logical key was errored by a rule, by rule. */
  errorCounts: Map<string, number>;
  requestCount: number;
  readonly opCounts: Map<string, number>;
  /** Message requests in processing, all workspaces together. */
  queued: number;
  /** What is left of the requests per minute, by workspace. */
  readonly budgets: Map<string, Budget>;
}

/** A token bucket as it stood at `atMs` on the simulator's clock. */
export interface Budget {
  tokens: number;
  atMs: number;
}

/** A state in which nothing has happened yet. */
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

function applyLogicalKey(state: SimulatorState): void {
  const pattern = state.settings.logical_key;
  state.ledger.setLogicalKey(pattern === null ? null : new RegExp(pattern));
}

/** Changes the settings. Throws a ZodError that names the member, and then changes nothing. */
export function configure(state: SimulatorState, change: unknown): void {
  state.settings = changeSettings(state.settings, change);
  applyLogicalKey(state);
}

/**
 * Forgets every batch, rule, journal entry and billing, and starts again from `seed`. Settings and clock stay.
 * Returns the batches there were.
 */
export function resetState(state: SimulatorState, seed: string): readonly Batch[] {
  const forgotten = state.batches.all();
  state.seed = seed;
  state.rules.clear();
  state.batches = createBatchStore();
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
