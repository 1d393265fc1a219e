import type { MeasuredChange, WriteResolution } from '@nightshift/agent-core';

/** Selects changes of a batch by agent and block; null: all. */
export interface HeldFilter {
  readonly agent_ids: readonly string[] | null;
  readonly block_ids: readonly string[] | null;
}

/** A held change with what decides about it. */
export interface HeldRow extends MeasuredChange {
  readonly draft_id: string;
}

/** The text that a change writes. */
export interface NewText {
  readonly resolution: WriteResolution;
  /** Null: the draft's own text. */
  readonly merged: { readonly value: string; readonly description: string | null } | null;
}
