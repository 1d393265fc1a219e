import type {
  BreakerPolicy,
  CallbackOutcome,
  PollPolicy,
  PriceTable,
  ReconcilePolicy,
  RefusalPolicy,
  RetryPolicy,
} from '@nightshift/agent-core';
import type { Claimant, Database } from '@nightshift/db';
import type { DefinitionCache } from '@nightshift/intake';
import type { Signal } from '@nightshift/queue';
import type { LeaseKeeper } from '../leases/keeper.ts';
import type { ProviderPort } from '../provider/port.ts';
import type { ToolRunners } from '../tools/runner.ts';
import type { GrantKeeper } from './calls/grant-keeper.ts';
import type { QuickTools } from './calls/quick-tools.ts';
import type { Slots } from './slots.ts';
import type { Strangers } from './strangers.ts';
import type { WorkBook } from './work-statistics.ts';

/** Posts callbacks. Never throws for a fault of the receiver. */
export interface CallbackPort {
  post(callback: {
    /** The same on every attempt of a callback. */
    readonly id: string;
    readonly url: string;
    readonly body: string;
    /** Seconds since the epoch. */
    readonly timestamp: number;
  }): Promise<CallbackOutcome>;
}

/** Sends signals. Never throws: a lost signal costs only latency. */
export interface BellPort {
  ring(signals: readonly Signal[]): Promise<void>;
}

/** Named points between the steps of flows, where tests pause, kill or race. Unused in production. */
export const HOOK_POINTS = [
  'accept.before_commit',
  'accept.after_commit',
  'compose.before_commit',
  'compose.after_commit',
  'submit.after_claim',
  'submit.after_fit',
  'submit.after_encode',
  'submit.after_write_ahead',
  'submit.before_post',
  'submit.after_post',
  'submit.after_commit',
  'reconcile.after_list',
  'reconcile.before_commit',
  'poll.after_look',
  'poll.after_commit',
  'poll.before_reject',
  'ingest.after_claim',
  'ingest.before_chunk',
  'ingest.before_commit',
  'ingest.after_commit',
  'ingest.before_end',
  'tools.after_claim',
  'tools.after_journal',
  'tools.after_calls',
  'tools.after_keep',
  'tools.before_commit',
  'tools.after_commit',
  'finish.before_commit',
  'forget.before_commit',
  'forget.after_commit',
  'cancel.before_commit',
  'cancel.after_commit',
  'cancel.after_upstream',
  'settle.before_commit',
  'sweep.before_commit',
  'hunt.after_list',
  'webhook.after_send',
  'webhook.after_event',
  'fire.before_commit',
  'fire.after_commit',
] as const;

export type HookPoint = (typeof HOOK_POINTS)[number];

export type Hooks = (point: HookPoint) => Promise<void> | void;

/** Sizes and times of flows. `config.ts` documents each under the name of its environment variable. */
export interface FlowSettings {
  readonly credential: string;
  /** Directory for temporary request bodies. */
  readonly body_dir: string;
  /** Maximum requests of one provider batch. */
  readonly requests_max: number;
  /** Maximum bytes of one provider batch. */
  readonly body_bytes_max: number;
  /** Agents of a fleet whose runs are stored in one transaction. */
  readonly agents_per_portion: number;
  /** Milliseconds that ready runs wait for others before a batch that is not full is sent. */
  readonly gather_window_ms: number;
  /** Timeout of one create. Unit: milliseconds. */
  readonly create_timeout_ms: number;
  /** Idle timeout of a result stream. Unit: milliseconds. */
  readonly results_idle_timeout_ms: number;
  /** Minimum average bytes a second of a result stream over the window; 0: no minimum. */
  readonly results_bytes_per_second_min: number;
  /** Window of that average. Unit: milliseconds. */
  readonly results_rate_window_ms: number;
  /** Result files that are read in parallel. */
  readonly ingest_lanes: number;
  /** Result lines of one transaction. */
  readonly chunk_lines: number;
  /** Chunks that are written in parallel, over all result files. */
  readonly chunks_in_flight: number;
  /** Maximum bytes of one result line. */
  readonly line_bytes_max: number;
  /** Maximum random delay before an item that crashed workers is processed alone. Unit: milliseconds. */
  readonly alone_delay_ms_max: number;
  /** Complete passes over a result file before a step without a line counts as missing. */
  readonly streams_max: number;
  readonly retry: RetryPolicy;
  readonly poll: PollPolicy;
  readonly reconcile: ReconcilePolicy;
  readonly refusal: RefusalPolicy;
  readonly breaker: BreakerPolicy;
  /** Milliseconds between two audits, over all workers. */
  readonly audit_interval_ms: number;
  /** Days after which ended batches are forgotten; null: never, unless a batch says so. */
  readonly retention_days: number | null;
  /**
   * True if only Nightshift creates batches under the credential. A second batch of a submission is then cancelled at once.
   */
  readonly workspace_is_ours: boolean;
  /** Prices of answers by model. */
  readonly prices: PriceTable;
}

/** Dependencies of all flows. */
export interface FlowDeps {
  readonly db: Database;
  /** Connection for audits, whose statements may run much longer than a flow's. Default: `db`. */
  readonly audit_db?: Database;
  readonly provider: ProviderPort;
  readonly tools: ToolRunners;
  /** Asks for calls of tools with limits over all workers; `tools.places.grants` holds the answers. */
  readonly grantKeeper: GrantKeeper;
  /** Limits the chunks of calls that are read or written at a time; waiting for calls takes no slot. */
  readonly callSlots: Slots;
  readonly bell: BellPort;
  readonly callbacks: CallbackPort;
  readonly leases: LeaseKeeper;
  readonly claimant: Claimant;
  readonly definitions: DefinitionCache;
  readonly quickTools: QuickTools;
  /** Limits the chunks in progress over all result files. */
  readonly chunkSlots: Slots;
  readonly strangers: Strangers;
  readonly work: WorkBook;
  readonly settings: FlowSettings;
  readonly hooks?: Hooks;
}

/**
 * Report of a flow.
 * - `worked`: it found work, and is called again at once.
 * - `again_in_ms`: the latest time of the next call.
 * - `rest_ms`: no call before then, because it would find nothing new. 0: the next call needs a signal, sent during this
 *   call or later.
 */
export interface FlowReport {
  readonly flow: string;
  readonly worked: boolean;
  readonly again_in_ms?: number;
  readonly rest_ms?: number;
  readonly [detail: string]: string | number | boolean | null | undefined;
}
