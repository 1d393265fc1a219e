import type { ResultPlan } from '../results/result-plan.ts';

/** Delivery options of a reply; without them it is sent whole and at once. */
export interface Delivery {
  /** Real milliseconds before the status line. */
  readonly headers_after_ms?: number;
  /** Real milliseconds between the headers and the body. */
  readonly body_after_ms?: number;
  /** `drop`: closes the connection without a byte. `hang`: sends nothing until the client disconnects. */
  readonly instead?: 'drop' | 'hang';
  /** Closes the connection after this many bytes of the body; Content-Length still names the full size. */
  readonly cut_after_bytes?: number;
  /** Closes the idle connection this long after the reply. */
  readonly close_after_ms?: number;
}

/** The reply of a handler. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly error_type?: string;
  readonly delivery?: Delivery;
  /** Result lines to stream instead of `body`. */
  readonly results?: ResultPlan;
}

/** Creates a reply of status 200 with a JSON body. */
export function jsonReply(value: unknown): Reply {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
}
