import { neutraliseClosingTags, tagNames } from './closing-tags.ts';

/** The parts of a block that a request shows. */
export interface ToldBlock {
  readonly value: string;
  readonly description: string | null;
  readonly char_limit: number;
  readonly read_only: boolean;
}

/** A change of a block by others that a run has not been told about. */
export interface UntoldChange {
  readonly kind: 'changed' | 'attached' | 'detached';
  /** Its present label, or the last known. */
  readonly label: string;
  /** The known label of a block that others renamed; null for no other label. */
  readonly old_label: string | null;
  /** The block as the run knows it; null for an attached or detached block. */
  readonly before: ToldBlock | null;
  /** The block now; null for a detached block. */
  readonly after: ToldBlock | null;
}

/** Returns the hunks of a unified diff by lines; null where the texts differ too much for a quick diff. */
export type LineDiff = (before: string, after: string) => string | null;

const OPENING =
  '<memory_update>\nOthers have changed your memory since you last saw it. This is how it stands now; your edits apply to ' +
  'these texts.\n\n';
const CLOSING = '\n</memory_update>';

/**
 * Makes the text of a message that tells a run what others wrote into its memory. Each change shows the difference, or the
 * whole text where that is shorter. Closing tags in texts are escaped as in the memory section. Depends on its arguments
 * alone.
 */
export function memoryNotice(changes: readonly UntoldChange[], lineDiff: LineDiff): string {
  const tags = tagNames(changes.map(({ label }) => label));
  const told = changes.map((change) => neutraliseClosingTags(describeChange(change, lineDiff), tags));
  return OPENING + told.join('\n\n') + CLOSING;
}

function describeChange({ label, old_label, before, after }: UntoldChange, lineDiff: LineDiff): string {
  const block = `Memory block '${label}'`;
  if (after === null) return `${block} is no longer yours.`;
  const lines = [
    before === null
      ? `${block} is now yours too.`
      : old_label === null
        ? `${block} has changed.`
        : `${block} is the block that you know as '${old_label}'.`,
  ];
  if (before?.description !== after.description)
    lines.push(`Its description: ${after.description ?? '(none)'}`);
  if (before?.char_limit !== after.char_limit) lines.push(`Its limit: ${after.char_limit} characters`);
  if ((before?.read_only ?? false) !== after.read_only)
    lines.push(after.read_only ? 'You may only read it.' : 'You may write it.');
  if (before?.value !== after.value) lines.push(describeText(before?.value ?? null, after.value, lineDiff));
  return lines.join('\n');
}

function describeText(before: string | null, after: string, lineDiff: LineDiff): string {
  if (after === '') return 'It is empty.';
  const diff = before === null ? null : lineDiff(before, after);
  return diff === null || diff.length >= after.length
    ? `Its text:\n${after}`
    : `Lines of its text that are gone (-) or new (+):\n${diff}`;
}
