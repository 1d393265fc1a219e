/** The work of one transaction. */
export type PortionReport =
  | { readonly kind: 'portion'; readonly agents: number; readonly runs: number }
  /** The batch runs now. */
  | { readonly kind: 'accepted'; readonly open_runs: number }
  /** The batch is no longer being received: a cancel came first. */
  | { readonly kind: 'gone' };
