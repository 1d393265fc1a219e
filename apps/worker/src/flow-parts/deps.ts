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
import type { Signal } from '@nightshift/queue';
import type { LeaseKeeper } from '../leases/keeper.ts';
import type { ProviderPort } from '../provider/port.ts';
import type { DefinitionCache } from './requests/definition-cache.ts';
import type { QuickTools } from './calls/quick-tools.ts';
import type { Slots } from './slots.ts';
import type { Strangers } from './strangers.ts';

/** A call for operator's code. Shapes are the tool host's, so that it can stand here as it is. */
export interface ToolRequest {
  readonly call_id: string;
  readonly tool_name: string;
  readonly arguments: unknown;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly idempotency_key: string;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
}

export interface ToolReply {
  readonly call_id: string;
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  readonly result: string;
  readonly duration_ms: number;
  /** False only when the tool was certainly not entered. */
  readonly started: boolean;
}

/**
 * Whatever carries module tools out. One reply a request, in the order asked; a tool's fault is a reply, never an error.
 * When it rejects because it is away, `outcomes` of the error are the replies as far as there are any.
 */
export interface ToolPort {
  runCalls(
    calls: readonly ToolRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly ToolReply[]>;
}

/** Whatever posts callbacks. Never throws for what a receiver does. */
export interface CallbackPort {
  post(callback: {
    /** The same for every try of one callback. */
    readonly id: string;
    readonly url: string;
    readonly body: string;
    /** Seconds since the epoch. */
    readonly timestamp: number;
  }): Promise<CallbackOutcome>;
}

/** Whatever rings the bell. Never throws: a lost ring costs latency only. */
export interface BellPort {
  ring(signals: readonly Signal[]): Promise<void>;
}

/** Named points between the steps of flows: absent in production, where a test pauses, kills or races. */
export const HOOK_POINTS = [
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
  'tools.before_commit',
  'tools.after_commit',
  'finish.before_commit',
  'cancel.before_commit',
  'cancel.after_commit',
  'cancel.after_upstream',
  'settle.before_commit',
  'sweep.before_commit',
  'hunt.after_list',
  'webhook.after_send',
] as const;

export type HookPoint = (typeof HOOK_POINTS)[number];

export type Hooks = (point: HookPoint) => Promise<void> | void;

/** Sizes and times that flows follow. `config.ts` documents each under the name of its environment variable. */
export interface FlowSettings {
  readonly credential: string;
  /** Directory for request bodies on their way out. */
  readonly body_dir: string;
  /** Requests of one provider batch. */
  readonly requests_max: number;
  /** Bytes of one provider batch. */
  readonly body_bytes_max: number;
  /** Milliseconds that ready runs wait for company before a batch that is not full leaves. */
  readonly gather_window_ms: number;
  /** Milliseconds that one create may take. */
  readonly create_timeout_ms: number;
  /** Milliseconds without a byte after which a result stream is given up. */
  readonly results_idle_timeout_ms: number;
  /** Bytes a second, on average over the window, below which a result stream is given up; 0: none. */
  readonly results_bytes_per_second_min: number;
  /** Milliseconds of waiting over which that average is taken. */
  readonly results_rate_window_ms: number;
  /** Result files that are read side by side. */
  readonly ingest_lanes: number;
  /** Result lines of one transaction. */
  readonly chunk_lines: number;
  /** Chunks that are written side by side, of all result files together. */
  readonly chunks_in_flight: number;
  /** Bytes of one result line. */
  readonly line_bytes_max: number;
  /** Milliseconds, at most, before what workers did not outlive is tried alone. */
  readonly alone_delay_ms_max: number;
  /** Complete passes over a result file before a step without a line counts as missing. */
  readonly streams_max: number;
  readonly retry: RetryPolicy;
  readonly poll: PollPolicy;
  readonly reconcile: ReconcilePolicy;
  readonly refusal: RefusalPolicy;
  readonly breaker: BreakerPolicy;
  /** Milliseconds between two audits of the whole database, all workers together. */
  readonly audit_interval_ms: number;
  /** True when nobody else makes batches under the credential: a second batch of a submission is then cancelled on sight. */
  readonly workspace_is_ours: boolean;
  /** What answers cost. */
  readonly prices: PriceTable;
}

/** Everything a flow may touch. */
export interface FlowDeps {
  readonly db: Database;
  /** For audits, whose statements may take much longer than those of flows; default `db`. */
  readonly audit_db?: Database;
  readonly provider: ProviderPort;
  readonly tools: ToolPort;
  readonly bell: BellPort;
  readonly callbacks: CallbackPort;
  readonly leases: LeaseKeeper;
  readonly claimant: Claimant;
  readonly definitions: DefinitionCache;
  readonly quickTools: QuickTools;
  /** Bounds the chunks of results that are under way, whatever file they are of. */
  readonly chunkSlots: Slots;
  readonly strangers: Strangers;
  readonly settings: FlowSettings;
  readonly hooks?: Hooks;
}

/**
 * What every flow reports: whether it found work (then it is called again at once), when to look again in any case, and for
 * how long another look would find nothing that the last one has not: until then it is not called. With a rest of 0 it is
 * called again only if somebody asked while it was under way, or asks later.
 */
export interface FlowReport {
  readonly flow: string;
  readonly worked: boolean;
  readonly again_in_ms?: number;
  readonly rest_ms?: number;
  readonly [detail: string]: string | number | boolean | null | undefined;
}
