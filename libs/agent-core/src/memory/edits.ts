import type { BlockView } from '../model/block.ts';
import { refuse, type Refusal } from './refusal.ts';
import { codePointLength, expandTabs, findOccurrences, lineNumbersOf, replaceExpandedSpan } from './text.ts';

/** The new value of a block, or the refusal. */
export type Edited = { readonly value: string } | Refusal;

/** Places of an ambiguous text listed in the error. */
const OCCURRENCES_MAX = 20;
/** Characters of a text quoted in an error. */
const QUOTE_MAX = 200;

function quote(text: string): string {
  const shown = text.length <= QUOTE_MAX ? text : `${text.slice(0, QUOTE_MAX)}…`;
  return `\`${shown}\``;
}

/** Returns null when a value of `length` characters fits the block. */
export function checkLimit(block: BlockView, length: number): Refusal | null {
  if (length <= block.char_limit) return null;
  return refuse(
    `Memory block '${block.label}' would hold ${length} characters, ${length - block.char_limit} more than its ` +
      `limit of ${block.char_limit}. Nothing was changed; shorten the text and call again.`,
  );
}

/** `core_memory_append`: adds the text on a new line at the end. */
export function appendText(block: BlockView, content: string): Edited {
  return { value: `${block.value}\n${content}` };
}

/** `core_memory_replace`: replaces every occurrence of the old text. */
export function replaceEverywhere(block: BlockView, oldText: string, newText: string): Edited {
  if (oldText === '') return replaceNothing(block, 'old_content', newText);
  let count = 0;
  for (
    let at = block.value.indexOf(oldText);
    at !== -1;
    at = block.value.indexOf(oldText, at + oldText.length)
  ) {
    count++;
  }
  if (count === 0) {
    return refuse(`The old content ${quote(oldText)} was not found in memory block '${block.label}'.`);
  }
  // Checked before building: a short text with many places can grow to gigabytes.
  const growth = count * (codePointLength(newText) - codePointLength(oldText));
  const overLimit = growth > 0 ? checkLimit(block, codePointLength(block.value) + growth) : null;
  return overLimit ?? { value: block.value.split(oldText).join(newText) };
}

/**
 * `memory_replace`: replaces the only occurrence of the old text.
 * If needed to find it, line ends count as `\r\n` in both texts, and tabs as spaces.
 */
export function replaceOnce(block: BlockView, oldText: string, newText: string): Edited {
  if (oldText === '') return replaceNothing(block, 'old_string', newText);
  const exact = findOccurrences(block.value, oldText, OCCURRENCES_MAX);
  const [start] = exact;
  if (start !== undefined) {
    if (exact.length > 1) return ambiguous(block.value, oldText, exact);
    return { value: block.value.slice(0, start) + newText + block.value.slice(start + oldText.length) };
  }
  const windowsOld = toWindows(oldText);
  if (windowsOld !== oldText && block.value.includes(windowsOld)) {
    return replaceOnce(block, windowsOld, toWindows(newText));
  }

  const expandedValue = expandTabs(block.value);
  const expandedOld = expandTabs(oldText);
  const expanded = findOccurrences(expandedValue, expandedOld, OCCURRENCES_MAX);
  const [from] = expanded;
  if (from === undefined) {
    return refuse(
      `Nothing was replaced: old_string ${quote(oldText)} does not stand in memory block '${block.label}'. ` +
        'Copy it exactly as it is there.',
    );
  }
  if (expanded.length > 1) return ambiguous(expandedValue, oldText, expanded);
  return { value: replaceExpandedSpan(block.value, from, from + expandedOld.length, newText) };
}

function toWindows(text: string): string {
  return text.replace(/\r?\n/g, '\r\n');
}

function ambiguous(value: string, oldText: string, starts: readonly number[]): Refusal {
  const lines = lineNumbersOf(value, starts).join(', ');
  const more = starts.length === OCCURRENCES_MAX ? ', …' : '';
  return refuse(
    `Nothing was replaced: old_string ${quote(oldText)} stands in more than one place (lines ${lines}${more}). ` +
      'Add surrounding text to make it unique.',
  );
}

/** An empty old text has a single place in an empty block only; elsewhere it matches between all characters. */
function replaceNothing(block: BlockView, argument: string, newText: string): Edited {
  if (block.value === '') return { value: newText };
  return refuse(
    `Argument '${argument}' must not be empty: name the text to replace, or insert or append instead.`,
  );
}

/** `memory_insert`: adds new lines after line `insertLine`; 0 is the top, -1 the end. */
export function insertLines(block: BlockView, newText: string, insertLine: number): Edited {
  const lines = block.value.split('\n');
  if (insertLine < -1 || insertLine > lines.length) {
    return refuse(
      `Invalid insert_line ${insertLine}: it must be a line of memory block '${block.label}', in the range ` +
        `[0, ${lines.length}], or -1 to append at the end.`,
    );
  }
  const at = insertLine === -1 ? lines.length : insertLine;
  return { value: [...lines.slice(0, at), newText, ...lines.slice(at)].join('\n') };
}
