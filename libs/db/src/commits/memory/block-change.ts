import type { BlockChange } from '@nightshift/agent-core';

export type Change<Kind extends BlockChange['kind']> = Extract<BlockChange, { readonly kind: Kind }>;

/** The changes of one kind. */
export function ofKind<Kind extends BlockChange['kind']>(
  changes: readonly BlockChange[],
  kind: Kind,
): readonly Change<Kind>[] {
  return changes.filter((change): change is Change<Kind> => change.kind === kind);
}
