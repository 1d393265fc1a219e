/**
 * The part of `node-diff3` in use: changed lines between two texts, and the merge of two changes of a third.
 * Passed in, to keep the core free of libraries.
 */
export interface Diff3 {
  diffIndices(
    before: string[],
    after: string[],
  ): readonly {
    /** First line and number of lines. */
    readonly buffer1: readonly [number, number];
    readonly buffer2Content: readonly string[];
  }[];
  diff3MergeRegions(
    ours: string[],
    original: string[],
    theirs: string[],
  ): readonly (
    | { readonly stable: true; readonly bufferContent: readonly string[] }
    | {
        readonly stable: false;
        readonly aContent: readonly string[];
        readonly oContent: readonly string[];
        readonly bContent: readonly string[];
      }
  )[];
}

export type Merged =
  | { readonly ok: true; readonly value: string }
  /** Both changed the same lines, or the texts are too long to compare. `lines` are the base's, for the message. */
  | { readonly ok: false; readonly lines: readonly string[] };

/** Line comparisons that a merge may cost; thousands of equal lines would take minutes. */
const WORK_MAX = 20_000_000;

/**
 * Merges two changes of the text `base` by lines: `current`, which was committed first, and `mine`.
 * Lines that a side added and the other left alone are kept; lines that a side deleted are gone. Insertions of both at
 * the same place are no conflict: the committed lines come first, and common lines at their edges stand once. Changes
 * of adjacent lines are no conflict either: a line is a fact. Different changes of the same line are a conflict, and
 * nothing is merged.
 */
export function mergeThreeWay(base: string, current: string, mine: string, diff3: Diff3): Merged {
  if (current === base || current === mine) return { ok: true, value: mine };
  if (mine === base) return { ok: true, value: current };
  const texts = [linesOf(base), linesOf(current), linesOf(mine)] as const;
  const [original, theirs, ours, head, tail] = trimCommon(...texts);
  if (workOf(original, theirs) + workOf(original, ours) > WORK_MAX) return { ok: false, lines: [] };
  const merged: string[] = [...head];
  for (const region of diff3.diff3MergeRegions(theirs, original, ours)) {
    if (region.stable) {
      append(merged, region.bufferContent);
      continue;
    }
    const { aContent, oContent, bContent } = region;
    const settled = areSame(aContent, bContent)
      ? aContent
      : mergeTouching([...oContent], [...aContent], [...bContent], diff3);
    if (settled === null) return { ok: false, lines: oContent };
    append(merged, settled);
  }
  append(merged, tail);
  return { ok: true, value: merged.join('\n') };
}

/** Appends singly: a call does not take as many arguments as a text may have lines. */
function append(lines: string[], more: readonly string[]): void {
  for (const line of more) lines.push(line);
}

function areSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((line, index) => line === others[index]);
}

/** Splits a text; an empty text has no lines, so that two agents may both begin it. */
function linesOf(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}

/** Splits off the common start and end of the three texts: most changes are small, and comparing is costly. */
function trimCommon(
  base: string[],
  current: string[],
  mine: string[],
): readonly [string[], string[], string[], string[], string[]] {
  const shortest = Math.min(base.length, current.length, mine.length);
  let start = 0;
  while (start < shortest && base[start] === current[start] && base[start] === mine[start]) start++;
  let end = 0;
  while (
    end < shortest - start &&
    base.at(-1 - end) === current.at(-1 - end) &&
    base.at(-1 - end) === mine.at(-1 - end)
  ) {
    end++;
  }
  const middle = (lines: string[]): string[] => lines.slice(start, lines.length - end);
  return [middle(base), middle(current), middle(mine), base.slice(0, start), base.slice(base.length - end)];
}

/** Returns an upper bound of the comparisons for the longest common subsequence of two texts. */
function workOf(a: readonly string[], b: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const line of b) counts.set(line, (counts.get(line) ?? 0) + 1);
  let pairs = 0;
  for (const line of a) pairs += counts.get(line) ?? 0;
  return pairs * Math.min(a.length, b.length);
}

interface Change {
  readonly from: number;
  readonly to: number;
  readonly lines: readonly string[];
}

/** Merges a region that both sides changed, if the changes only touch; null where they overlap. */
function mergeTouching(original: string[], theirs: string[], ours: string[], diff3: Diff3): string[] | null {
  const changesTo = (side: string[]): Change[] =>
    diff3.diffIndices(original, side).map(({ buffer1: [from, length], buffer2Content }) => ({
      from,
      to: from + length,
      lines: buffer2Content,
    }));
  const pending = { theirs: changesTo(theirs), ours: changesTo(ours) };
  const merged: string[] = [];
  let at = 0;
  const take = (change: Change, lines: readonly string[]): void => {
    append(merged, original.slice(at, change.from));
    append(merged, lines);
    at = change.to;
  };
  for (;;) {
    const [their] = pending.theirs;
    const [our] = pending.ours;
    if (their === undefined && our === undefined) break;
    if (our === undefined || (their !== undefined && comesFirst(their, our))) {
      take(their as Change, (their as Change).lines);
      pending.theirs.shift();
    } else if (their === undefined || comesFirst(our, their)) {
      take(our, our.lines);
      pending.ours.shift();
    } else {
      const both = mergeAtOnePlace(their, our);
      if (both === null) return null;
      take(our, both);
      pending.theirs.shift();
      pending.ours.shift();
    }
  }
  append(merged, original.slice(at));
  return merged;
}

/** Returns whether a change lies wholly before the other, touching it at most. */
function comesFirst(a: Change, b: Change): boolean {
  return a.to <= b.from && (a.from < b.from || a.to < b.to);
}

/** Merges two changes without an order if both only insert at the same place. */
function mergeAtOnePlace(their: Change, our: Change): readonly string[] | null {
  const areInsertions = their.from === their.to && our.from === our.to;
  return areInsertions ? unite(their.lines, our.lines) : null;
}

/** Joins two insertions; a common start and end stand once. */
function unite(first: readonly string[], second: readonly string[]): readonly string[] {
  const shortest = Math.min(first.length, second.length);
  let start = 0;
  while (start < shortest && first[start] === second[start]) start++;
  let end = 0;
  while (end < shortest - start && first.at(-1 - end) === second.at(-1 - end)) end++;
  return [...first.slice(0, first.length - end), ...second.slice(start)];
}
