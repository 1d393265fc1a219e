import type { LoopDelay } from '../measure/event-loop.ts';
import type { StatementCounts } from '../measure/statements.ts';
import type { Scenario } from '../workload.ts';

/** Where and how much an engine works. */
export interface EngineContext {
  /** A database of its own, empty. */
  readonly url: string;
  /** A Redis of its own, flushed; null when this machine has none. */
  readonly redisUrl: string | null;
  /** A directory of its own. */
  readonly dir: string;
  readonly runs: number;
  readonly scenario: Scenario;
  readonly workers: number;
  /** `redis`, `postgres` or `none`: what carries the product's signals. */
  readonly queue: string;
  /** Environment of the product's worker beside what the bench sets. */
  readonly workerEnv: Readonly<Record<string, string>>;
}

/** What the rows of an engine must add up to before its figures count. */
export interface RowCounts {
  readonly done: number;
  readonly steps: number;
  /** Null for engines that store messages in a form of their own. */
  readonly messages: number | null;
}

/** What an engine counts of itself. */
export interface EngineFigures {
  readonly provider_cpu_ms: number;
  readonly counts: StatementCounts;
  readonly loop: LoopDelay;
}

/** A check of everything that is stored, which an engine makes from time to time whatever it works on. */
export interface Audit {
  /** Steps in the database, those of earlier runs among them. */
  readonly steps_kept: number;
  /** Makes it once; rejects when the books do not balance. */
  run(): Promise<void>;
}

/** An engine that is ready to start: connected, its tables made, its agents stored. */
export interface PreparedEngine {
  /** Takes the runs in. */
  accept(): Promise<void>;
  /** Takes every run to its end. */
  run(): Promise<void>;
  figures(): EngineFigures | Promise<EngineFigures>;
  count(): Promise<RowCounts>;
  /** Ends what works and prepares an audit. Absent: the engine has none. */
  prepareAudit?(): Promise<Audit>;
  close(): Promise<void>;
}

export type PrepareEngine = (context: EngineContext) => Promise<PreparedEngine>;
