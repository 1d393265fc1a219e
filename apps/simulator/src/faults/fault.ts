import type { Reply } from '../api/reply.ts';
import type { Batch, WireBatch } from '../batch.ts';
import type { ResultPlan } from '../results/result-plan.ts';

/** A page of the batch list before it is written. */
export interface ListPage {
  readonly batches: readonly WireBatch[];
  readonly has_more: boolean;
}

/** The query of a list request. */
export interface ListQuery {
  readonly limit: number;
  readonly after_id: string | null;
  readonly before_id: string | null;
}

/** The circumstances that a fault may inspect. */
export interface FaultContext {
  readonly nowMs: number;
  readonly seed: string;
  readonly ruleId: string;
}

/** The request data that a fault may use. */
export interface Acted {
  readonly requestId: string;
}

/** One action of a rule, by stages of a request. Absent stages have no effect. */
export interface Fault {
  readonly ruleId: string;
  /** Before the request is handled, after its body was read. A reply replaces the handling. */
  readonly before?: (acted: Acted) => Promise<Reply | undefined> | Reply | undefined;
  /** Milliseconds after which a proxy that has answered 504 forwards this create. */
  readonly arrivesAfterMs?: number;
  /** After this request has created a batch. */
  readonly created?: (batch: Batch) => void;
  /** Before a cancel is carried out; returns its delay, or `ignore`. */
  readonly canceling?: (batch: Batch) => number | 'ignore' | undefined;
  /** True when the batch in the path is visible. */
  readonly hides?: (batch: Batch, context: FaultContext) => boolean;
  /** Changes the wire shape of a single batch. */
  readonly shown?: (wire: WireBatch, batch: Batch, context: FaultContext) => WireBatch;
  /** Filters the batches of the list, oldest first. */
  readonly listed?: (batches: readonly Batch[], context: FaultContext) => readonly Batch[];
  /** Replaces the query of a list request. */
  readonly asked?: (query: ListQuery) => ListQuery;
  /** Changes a page of the list. */
  readonly page?: (page: ListPage, context: FaultContext) => ListPage;
  /** Changes the plan for sending results. */
  readonly results?: (plan: ResultPlan, context: FaultContext) => ResultPlan;
  /** After the request was handled and committed. */
  readonly after?: (reply: Reply, acted: Acted) => Promise<Reply> | Reply;
}
