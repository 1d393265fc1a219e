import type { Reply } from '../api/reply.ts';
import type { Batch, WireBatch } from '../batch.ts';
import type { ResultPlan } from '../results/result-plan.ts';

/** A page of the list of batches before it is written. */
export interface ListPage {
  readonly batches: readonly WireBatch[];
  readonly has_more: boolean;
}

/** What the request asks of the list. */
export interface ListQuery {
  readonly limit: number;
  readonly after_id: string | null;
  readonly before_id: string | null;
}

/** The circumstances a fault may look at. */
export interface FaultContext {
  readonly nowMs: number;
  readonly seed: string;
  readonly ruleId: string;
}

/** What a fault may know of the request it acts on. */
export interface Acted {
  readonly requestId: string;
}

/** One action of a rule: what it does at each stage of a request. Stages it leaves out go their way. */
export interface Fault {
  readonly ruleId: string;
  /** Before the request is handled, its body already read. A reply takes the place of the handling. */
  readonly before?: (acted: Acted) => Promise<Reply | undefined> | Reply | undefined;
  /** A proxy gives up on this create, and forwards it so many milliseconds later. */
  readonly arrivesAfterMs?: number;
  /** When a batch has just been created by this request. */
  readonly created?: (batch: Batch) => void;
  /** When a cancel is about to be carried out; returns the delay to use, or `ignore`. */
  readonly canceling?: (batch: Batch) => number | 'ignore' | undefined;
  /** Whether the named batch is there at all. */
  readonly hides?: (batch: Batch, context: FaultContext) => boolean;
  /** How a single batch is shown. */
  readonly shown?: (wire: WireBatch, batch: Batch, context: FaultContext) => WireBatch;
  /** Which batches the list knows; oldest first. */
  readonly listed?: (batches: readonly Batch[], context: FaultContext) => readonly Batch[];
  /** The query that is answered instead of the one asked. */
  readonly asked?: (query: ListQuery) => ListQuery;
  /** How a page of the list is shown. */
  readonly page?: (page: ListPage, context: FaultContext) => ListPage;
  /** How the results are sent. */
  readonly results?: (plan: ResultPlan, context: FaultContext) => ResultPlan;
  /** After the request was handled and its effect is committed. */
  readonly after?: (reply: Reply, acted: Acted) => Promise<Reply> | Reply;
}
