import type { LoopDelay } from '../measure/event-loop.ts';
import type { StatementCounts } from '../measure/statements.ts';
import type { Scenario } from '../workload.ts';

/** The place and the size of an engine's work. */
export interface EngineContext {
  /** URL of an empty database. */
  readonly url: string;
  /** URL of an empty Redis; null when this machine has none. */
  readonly redisUrl: string | null;
  /** A directory of the engine's own. */
  readonly dir: string;
  readonly runs: number;
  readonly scenario: Scenario;
  readonly workers: number;
  /** Carrier of the product's signals: `redis`, `postgres` or `none`. */
  readonly queue: string;
  /** Environment of the product's workers, beside the bench's own settings. */
  readonly workerEnv: Readonly<Record<string, string>>;
}

/** Row counts that are compared with the plan before any figure counts. */
export interface RowCounts {
  readonly done: number;
  readonly steps: number;
  /** Null for engines that store messages in another form. */
  readonly messages: number | null;
}

/** Figures that an engine measures itself. */
export interface EngineFigures {
  readonly provider_cpu_ms: number;
  readonly counts: StatementCounts;
  readonly loop: LoopDelay;
}

/** A check of all stored rows, as the product's workers run it from time to time. */
export interface Audit {
  /** Steps in the database, earlier runs included. */
  readonly steps_kept: number;
  /** Runs the audit once. Rejects when it finds a violation. */
  run(): Promise<void>;
}

/** An engine that is ready to start: connected, migrated, with its agents stored. */
export interface PreparedEngine {
  /** Stores the runs. */
  accept(): Promise<void>;
  /** Resolves when every run has ended. */
  run(): Promise<void>;
  figures(): EngineFigures | Promise<EngineFigures>;
  count(): Promise<RowCounts>;
  /** Stops the workers and prepares an audit. Absent for engines without one. */
  prepareAudit?(): Promise<Audit>;
  close(): Promise<void>;
}

export type PrepareEngine = (context: EngineContext) => Promise<PreparedEngine>;
