/** What the store knows of a block that a batch has written. */
export interface RevertFacts {
  /** Its first and last revision by the batch, and how many it has by it. */
  readonly first: number;
  readonly last: number;
  readonly writes: number;
  /** Whether the head holds what its last revision by the batch did, be it another: edits that were undone, or the same words. */
  readonly is_as_written: boolean;
  /** Whether the head holds what stood before the batch. */
  readonly is_as_before: boolean;
  /** Whether the head is what another batch wrote: what it holds is then that batch's, be the words the same. */
  readonly is_anothers: boolean;
  readonly is_deleted: boolean;
}

/** What becomes of the block when the batch is reverted. */
export type RevertDecision =
  /** What stood before the batch is written again; `forced` over edits of others. */
  | { readonly kind: 'restore'; readonly revision: number; readonly forced: boolean }
  /** The batch made the block: it is deleted. */
  | { readonly kind: 'delete'; readonly forced: boolean }
  | { readonly kind: 'none' }
  /** It holds an edit of others, or they wrote between the batch's writes, or it was deleted. */
  | { readonly kind: 'refuse'; readonly reason: 'edited' | 'deleted' };

/**
 * Decides about one block. Edits of others that stand after those of the batch, or were made between them, would be lost with
 * it: such a block is left alone unless the caller forces it. A block that already holds what stood before needs nothing,
 * unless it is another batch that wrote that. One that a later batch wrote is as this one left it once that is reverted, so
 * nights are taken back the last one first.
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
