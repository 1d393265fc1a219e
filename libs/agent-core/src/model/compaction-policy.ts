/** Policy that keeps a conversation short. */
export type CompactionPolicy =
  | { readonly mode: 'none' }
  /** Beyond `limit` messages the last `keep` stay. */
  | { readonly mode: 'static_buffer'; readonly limit: number; readonly keep: number }
  /** When the window fills, the oldest messages are evicted: a share of `evict_ratio`, from 0 to 1. */
  | { readonly mode: 'sliding_window'; readonly evict_ratio: number };

export const STATIC_BUFFER_DEFAULT = { mode: 'static_buffer', limit: 10, keep: 4 } as const;
export const SLIDING_WINDOW_DEFAULT = { mode: 'sliding_window', evict_ratio: 0.3 } as const;
