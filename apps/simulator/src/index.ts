export { startSimulator } from './simulator.ts';
export type { Simulator, SimulatorOptions } from './simulator.ts';
export type { BatchTruth, Control, ItemTruth } from './control/control.ts';
export type { ClockMode } from './clock.ts';
export type { JournalEntry } from './journal.ts';
export type { BilledTotals, LedgerSnapshot, RepeatedBilling } from './ledger.ts';
export type { RuleInput } from './faults/rule-schema.ts';
export type { Settings, SettingsChange } from './settings.ts';
export type {
  ContentBlock,
  MessageParams,
  ModelScript,
  ScriptReply,
  ScriptRequest,
} from './scripts/script.ts';
