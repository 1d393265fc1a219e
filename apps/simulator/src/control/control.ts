import type { Batch } from '../batch.ts';
import { rateOfMode } from '../clock.ts';
import type { ClockMode } from '../clock.ts';
import type { RuleInput } from '../faults/rule-schema.ts';
import type { RuleStatus } from '../faults/rules.ts';
import type { JournalEntry } from '../journal.ts';
import type { BilledRow, LedgerSnapshot } from '../ledger.ts';
import { archiveBatch, cancelBatch, endBatch, removeFiles, stallBatch } from '../lifecycle.ts';
import { linesOf } from '../results/read-lines.ts';
import { configure, resetState } from '../state.ts';
import type { SimulatorState } from '../state.ts';
import type { Settings, SettingsChange } from '../settings.ts';

/** The state of a batch, with details that the API hides. */
export type BatchTruth = Omit<Batch, 'items' | 'timers' | 'ending'>;

/** One request of a batch; its fate is null until the batch has ended. */
export interface ItemTruth {
  readonly custom_id: string;
  readonly result: string | null;
}

/** Commands for a batch; `cancel` acts like the provider's console. */
export const BATCH_COMMANDS = ['end', 'expire', 'archive', 'stall', 'cancel'] as const;

/** The control surface for tests and operators, in the process and over the control port. */
export interface Control {
  /** Deletes all state, restores the initial settings, and restarts from `seed`. */
  reset(seed?: string): Promise<void>;
  settings(): Settings;
  /**
   * Changes settings.
   * Throws: ZodError that names the member.
   */
  configure(change: SettingsChange): Settings;
  /**
   * Appends a rule, or replaces the rule with its id.
   * Throws: ZodError that names the member.
   */
  addRule(rule: RuleInput): string;
  removeRule(id: string): boolean;
  clearRules(): void;
  rules(): RuleStatus[];
  /** Milliseconds since the epoch. */
  now(): number;
  /** Advances the clock; resolves after all due tasks have run. */
  advance(ms: number): Promise<void>;
  advanceTo(ms: number): Promise<void>;
  /**
   * Changes the clock mode.
   * Throws: RangeError that names the accepted modes.
   */
  setClockMode(mode: ClockMode): void;
  /** All batches, oldest first, also deleted ones. */
  batches(): BatchTruth[];
  batch(id: string): BatchTruth | undefined;
  /** The requests of a batch; empty after its files are deleted. */
  items(id: string): Promise<ItemTruth[]>;
  /**
   * Carries out a command; undefined for an unknown batch.
   * Throws: RangeError when a batch to archive has not ended.
   */
  command(id: string, command: (typeof BATCH_COMMANDS)[number]): Promise<BatchTruth | undefined>;
  journal(sinceSeq?: number, limit?: number): { entries: JournalEntry[]; last_seq: number; dropped: number };
  ledger(): LedgerSnapshot;
  billed(key: { readonly content_hash: string } | { readonly logical_key: string }): BilledRow | undefined;
}

function truthOf({ items: _items, timers: _timers, ending: _ending, ...truth }: Batch): BatchTruth {
  return truth;
}

const LINE_HEAD = /^\{"custom_id":"([^"]*)","result":\{"type":"([a-z]+)"/;

async function itemsOf(batch: Batch): Promise<ItemTruth[]> {
  const found: ItemTruth[] = [];
  if (batch.results_path !== null && batch.status === 'ended') {
    for await (const { bytes } of linesOf(batch.results_path)) {
      const head = LINE_HEAD.exec(bytes.toString('latin1', 0, 120));
      found.push({ custom_id: head?.[1] ?? '', result: head?.[2] ?? null });
    }
  } else {
    for (const { customId } of batch.items ?? []) found.push({ custom_id: customId, result: null });
  }
  return found;
}

/** Creates the control surface of a simulator. */
export function createControl(state: SimulatorState): Control {
  const { seed: firstSeed, settings: firstSettings } = state;
  const { clock, rules } = state;

  return {
    async reset(seed = firstSeed) {
      const forgotten = resetState(state, seed);
      state.settings = firstSettings;
      configure(state, {});
      await Promise.all(
        forgotten.map(async (batch) => {
          // Awaited only so that it writes no more files; its outcome no longer matters.
          await batch.ending?.catch(() => undefined);
          await removeFiles(batch);
        }),
      );
    },
    settings: () => state.settings,
    configure(change) {
      configure(state, change);
      return state.settings;
    },
    addRule: (rule) => rules.add(rule),
    removeRule: (id) => rules.remove(id),
    clearRules: () => rules.clear(),
    rules: () => rules.list(),
    now: () => clock.now(),
    advance: (ms) => clock.advance(ms),
    advanceTo: (ms) => clock.advanceTo(ms),
    setClockMode: (mode) => clock.setRate(rateOfMode(mode)),
    batches: () => state.batches.all().map(truthOf),
    batch(id) {
      const batch = state.batches.get(id);
      return batch && truthOf(batch);
    },
    async items(id) {
      const batch = state.batches.get(id);
      return batch === undefined ? [] : itemsOf(batch);
    },
    async command(id, command) {
      const batch = state.batches.get(id);
      if (batch === undefined) return undefined;
      if (command === 'end') await endBatch(state, batch, batch.status === 'canceling' ? 'canceled' : 'done');
      else if (command === 'expire') await endBatch(state, batch, 'expired');
      else if (command === 'archive') await archiveBatch(state, batch);
      else if (command === 'cancel') cancelBatch(state, batch, []);
      else stallBatch(batch);
      return truthOf(batch);
    },
    journal: (sinceSeq = 0, limit = 1000) => state.journal.since(sinceSeq, limit),
    ledger: () => state.ledger.snapshot(),
    billed: (key) =>
      'content_hash' in key
        ? state.ledger.byContentHash(key.content_hash)
        : state.ledger.byLogicalKey(key.logical_key),
  };
}
