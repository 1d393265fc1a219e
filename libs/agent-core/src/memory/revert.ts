/** Facts about a block that a batch has written. */
export interface RevertFacts {
  /** First and last revision by the batch, and their number. */
  readonly first: number;
  readonly last: number;
  readonly writes: number;
  /** Whether the head holds the batch's last text, even in a later revision: undone edits, or the same text. */
  readonly is_as_written: boolean;
  /** Whether the head holds the text from before the batch. */
  readonly is_as_before: boolean;
  /** Whether another batch wrote the head; the text is then that batch's, even if equal. */
  readonly is_anothers: boolean;
  readonly is_deleted: boolean;
}

/** Decision about a block when the batch is reverted. */
export type RevertDecision =
  /** Restores the text from before the batch; `forced` over edits of others. */
  | { readonly kind: 'restore'; readonly revision: number; readonly forced: boolean }
  /** The batch created the block: it is deleted. */
  | { readonly kind: 'delete'; readonly forced: boolean }
  | { readonly kind: 'none' }
  /** The block was edited by others, between or after the batch's writes, or deleted. */
  | { readonly kind: 'refuse'; readonly reason: 'edited' | 'deleted' };

/**
 * Decides about a block. Edits of others after or between the batch's writes would be lost.
 * Such a block is left alone unless the caller forces it. A block that already holds its earlier text needs nothing,
 * unless another batch wrote that text. After a later batch is reverted, its blocks are as this batch left them, so
 * batches are reverted last first.
 */
export function decideRevert(facts: RevertFacts, force: boolean): RevertDecision {
  const { first, last, writes } = facts;
  if (facts.is_deleted) return first === 1 ? { kind: 'none' } : { kind: 'refuse', reason: 'deleted' };
  if (first > 1 && facts.is_as_before && !facts.is_anothers) return { kind: 'none' };
  const isEdited = !facts.is_as_written || facts.is_anothers || last - first + 1 > writes;
  if (isEdited && !force) return { kind: 'refuse', reason: 'edited' };
  if (first === 1) return { kind: 'delete', forced: isEdited };
  return { kind: 'restore', revision: first - 1, forced: isEdited };
}
