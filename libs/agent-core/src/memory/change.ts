import { codePointLength } from './text.ts';

/**
 * The part of `diff` (jsdiff) in use: its writer of unified diffs, which gives up beyond `maxEditLength`.
 * Passed in, to keep the core free of libraries.
 */
export type CreatePatch = (
  oldName: string,
  newName: string,
  oldText: string,
  newText: string,
  oldHeader: undefined,
  newHeader: undefined,
  options: { readonly context: number; readonly maxEditLength: number },
) => string | undefined;

/** Two revisions of a block to compare. */
export interface ComparedRevisions {
  readonly label: string;
  /** Null for a new block. */
  readonly from_revision: number | null;
  readonly to_revision: number;
  readonly before: string;
  readonly after: string;
}

/** A memory change for review. */
export interface MemoryChange {
  readonly label: string;
  readonly from_revision: number | null;
  readonly to_revision: number;
  /** Unified diff; empty without a difference. */
  readonly diff: string;
  /** Characters (code points). */
  readonly chars_before: number;
  readonly chars_after: number;
  readonly lines_added: number;
  readonly lines_removed: number;
  /** True where so much text was lost that a review is due. */
  readonly shrunk: boolean;
}

/** Thresholds of the alarm for lost text. */
export interface ShrinkPolicy {
  /** Share of lost characters that is an alarm, from 0 to 1. */
  readonly loss_ratio: number;
  /**
   * Shortest block with an alarm.
   * Unit: characters.
   */
  readonly chars_min: number;
}

export const SHRINK_POLICY_DEFAULT: ShrinkPolicy = { loss_ratio: 0.6, chars_min: 200 };

/** Returns whether a block lost so much text that a review is due. */
export function isShrinkAlarm(
  { chars_before, chars_after }: Pick<MemoryChange, 'chars_before' | 'chars_after'>,
  policy: ShrinkPolicy = SHRINK_POLICY_DEFAULT,
): boolean {
  if (chars_before < policy.chars_min) return false;
  return chars_before - chars_after >= chars_before * policy.loss_ratio;
}

const CONTEXT_LINES = 3;
/** Changed lines beyond which the diff replaces the whole text instead of searching the shortest. */
const EDIT_LENGTH_MAX = 500;

/** Describes the change as a unified diff between `<label>@<revision>` names, with its sizes. */
export function describeChange(change: ComparedRevisions, createPatch: CreatePatch): MemoryChange {
  const { label, from_revision, to_revision, before, after } = change;
  const chars = { chars_before: codePointLength(before), chars_after: codePointLength(after) };
  const diff = before === after ? '' : unifiedDiff(change, createPatch);
  let lines_added = 0;
  let lines_removed = 0;
  for (const line of diff.split('\n').slice(HEADING_LINES)) {
    if (line.startsWith('+')) lines_added++;
    else if (line.startsWith('-')) lines_removed++;
  }
  return {
    label,
    from_revision,
    to_revision,
    diff,
    ...chars,
    lines_added,
    lines_removed,
    shrunk: isShrinkAlarm(chars),
  };
}

/** Lines of the heading, which names both sides. */
const HEADING_LINES = 2;

function unifiedDiff(
  { label, from_revision, to_revision, before, after }: ComparedRevisions,
  createPatch: CreatePatch,
): string {
  // A name must be a single line of the diff.
  const name = label.replaceAll(/[\r\n\t]/g, ' ');
  const oldName = from_revision === null ? '/dev/null' : `${name}@${from_revision}`;
  const newName = `${name}@${to_revision}`;
  const patch = createPatch(oldName, newName, before, after, undefined, undefined, {
    context: CONTEXT_LINES,
    maxEditLength: EDIT_LENGTH_MAX,
  });
  if (patch === undefined) return `--- ${oldName}\n+++ ${newName}\n${replacement(before, after)}`;
  // jsdiff begins with a ruler, which is no part of a unified diff.
  return patch.slice(patch.indexOf('--- '));
}

/** Makes a hunk that removes everything and adds everything. */
function replacement(before: string, after: string): string {
  const side = (text: string, sign: string): { readonly count: number; readonly text: string } => {
    if (text === '') return { count: 0, text: '' };
    const lines = text.split('\n');
    const isTerminated = lines.at(-1) === '';
    if (isTerminated) lines.pop();
    const shown = lines.map((line) => `${sign}${line}\n`).join('');
    return { count: lines.length, text: isTerminated ? shown : `${shown}\\ No newline at end of file\n` };
  };
  const out = side(before, '-');
  const into = side(after, '+');
  const range = (count: number): string => (count === 0 ? '0,0' : `1,${count}`);
  return `@@ -${range(out.count)} +${range(into.count)} @@\n${out.text}${into.text}`;
}
