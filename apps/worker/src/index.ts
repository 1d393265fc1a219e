export { startWorker, type Worker, type WorkerParts } from './worker.ts';
export { readConfig, type WorkerConfig } from './config.ts';
export { anthropicProvider } from './provider/anthropic.ts';
export type { FlowDeps, FlowReport, FlowSettings, HookPoint, Hooks } from './flow-parts/deps.ts';
export type { ProviderPort } from './provider/port.ts';
