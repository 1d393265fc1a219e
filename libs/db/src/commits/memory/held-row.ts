import type { MeasuredChange, WriteResolution } from '@nightshift/agent-core';
import type { HeldChoice } from '../../reads/memory/held-conditions.ts';

/** Selects changes of a batch by agent and block; null: all. */
export interface HeldFilter {
  readonly agent_ids: readonly string[] | null;
  readonly block_ids: readonly string[] | null;
}

/** Selects the held changes to settle; fields that are absent or null do not filter. */
export interface HeldSelection extends HeldFilter {
  readonly choice?: HeldChoice | null;
  /** Ids of drafts. */
  readonly change_ids?: readonly string[] | null;
  /** Ids of drafts to leave out; the passages of their agents stay held too. */
  readonly except_ids?: readonly string[] | null;
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
