export { startSimulator } from './simulator.ts';
export type { Simulator, SimulatorOptions } from './simulator.ts';
export type { LedgerSnapshot } from './ledger.ts';
export type { RuleInput } from './faults/rule-schema.ts';
export type { SettingsChange } from './settings.ts';
