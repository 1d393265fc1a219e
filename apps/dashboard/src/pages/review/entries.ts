import type { HeldSummary } from '@nightshift/client';
import type { Change } from './change.ts';

/** A row of the list: a change, or equal changes that are settled together. */
export interface Entry {
  readonly key: string;
  /** The change, or the first of the equal ones. */
  readonly change: Change;
  /** Number of equal changes; 1 for a change alone. */
  readonly count: number;
}

/** Returns the name under which equal changes are one row; null for a change that needs a look of its own. */
function groupOf({ change_group, stale, state }: Change): string | null {
  return stale ? null : `${state} ${change_group}`;
}

/** Folds equal changes into one row each. Stale changes stay alone: an accept would refuse them. */
export function foldEqual(changes: readonly Change[], groups: HeldSummary['groups']): readonly Entry[] {
  const held = new Map(
    groups.flatMap((group) => (group.changes > 1 ? [[group.change_group, group.held]] : [])),
  );
  const places = new Map<string, number>();
  const entries: Entry[] = [];
  const stale = new Map<string, number>();
  for (const change of changes) {
    const { id, change_group } = change;
    if (change.stale) stale.set(change_group, (stale.get(change_group) ?? 0) + 1);
    const group = held.has(change_group) ? groupOf(change) : null;
    const place = group === null ? undefined : places.get(group);
    const before = place === undefined ? undefined : entries[place];
    if (place !== undefined && before !== undefined) {
      entries[place] = { ...before, count: before.count + 1 };
      continue;
    }
    if (group !== null) places.set(group, entries.length);
    entries.push({ key: id, change, count: 1 });
  }
  // The list may hold only some of a group yet; the summary counts all of it.
  return entries.map((entry) => {
    const { change_group, state } = entry.change;
    if (entry.count === 1 || state !== 'held') return entry;
    const all = (held.get(change_group) ?? 0) - (stale.get(change_group) ?? 0);
    return { ...entry, count: Math.max(entry.count, all) };
  });
}
