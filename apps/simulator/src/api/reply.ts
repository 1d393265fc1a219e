import type { ResultPlan } from '../results/result-plan.ts';

/** How a reply goes out when not simply whole. */
export interface Delivery {
  /** Real milliseconds before the status line. */
  readonly headers_after_ms?: number;
  /** Real milliseconds between the headers and the body. */
  readonly body_after_ms?: number;
  /** `drop`: the connection is closed without a byte. `hang`: nothing is sent until the client gives up. */
  readonly instead?: 'drop' | 'hang';
  /** Close the connection after this many bytes of the body, the Content-Length promising all. */
  readonly cut_after_bytes?: number;
  /** Close the idle connection this long after the reply. */
  readonly close_after_ms?: number;
}

/** What a handler answers. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly error_type?: string;
  readonly delivery?: Delivery;
  /** Result lines to stream instead of `body`. */
  readonly results?: ResultPlan;
}

/** A reply of status 200 with a JSON body. */
export function jsonReply(value: unknown): Reply {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
}
