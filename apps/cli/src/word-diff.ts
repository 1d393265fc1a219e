import { diffLines, diffWordsWithSpace } from 'diff';
import { plainOf } from './table.ts';

export type Kind = 'same' | 'removed' | 'added';

/** A text of one kind. The removed and same segments make the old text, the added and same ones the new text. */
export interface Segment {
  readonly kind: Kind;
  readonly text: string;
}

/** A line of the terminal, or a number of unchanged lines that are left out. */
export type DiffLine = readonly Segment[] | number;

export interface Layout {
  /** Width of a line. */
  readonly columns: number;
  /** Unchanged lines shown around a change; longer runs are folded. Infinity: nothing is folded. */
  readonly context: number;
  /** Whether changes get the marks `[-…-]` and `{+…+}`, for output without colour. */
  readonly isMarked: boolean;
}

/** Edits up to which words are compared: the time grows with their square. Beyond, lines are. */
const WORD_EDITS_MAX = 2_000;
const LINE_EDITS_MAX = 5_000;

/** Compares two texts by words; very different long texts by lines, or as a whole. */
export function wordDiff(before: string, after: string): Segment[] {
  const changes =
    diffWordsWithSpace(before, after, { maxEditLength: WORD_EDITS_MAX }) ??
    diffLines(before, after, { maxEditLength: LINE_EDITS_MAX });
  if (changes === undefined)
    return [
      { kind: 'removed', text: before },
      { kind: 'added', text: after },
    ];
  return joinChanges(
    changes.map(({ value, added, removed }) => ({
      kind: added ? 'added' : removed ? 'removed' : 'same',
      text: value,
    })),
  );
}

/** Joins changes with nothing but blanks between them, so that a phrase is read as a phrase. */
function joinChanges(segments: readonly Segment[]): Segment[] {
  const joined: Segment[] = [];
  let removed = '';
  let added = '';
  const flush = (): void => {
    if (removed !== '') joined.push({ kind: 'removed', text: removed });
    if (added !== '') joined.push({ kind: 'added', text: added });
    removed = '';
    added = '';
  };
  for (const [place, { kind, text }] of segments.entries()) {
    const isBetween = removed !== '' && added !== '' && place < segments.length - 1;
    if (kind === 'removed') removed += text;
    else if (kind === 'added') added += text;
    else if (isBetween && /^[^\S\n]+$/.test(text)) {
      removed += text;
      added += text;
    } else {
      flush();
      joined.push({ kind, text });
    }
  }
  flush();
  return joined;
}

/** Lays segments out in lines of a terminal: wraps long lines, and folds unchanged ones. */
export function layOut(segments: readonly Segment[], { columns, context, isMarked }: Layout): DiffLine[] {
  const lines = logicalLines(segments)
    .map((line) => (isMarked ? line.map(withMarks) : line))
    .flatMap((line) => wrap(line, Math.max(1, columns)));
  const shown = nearChanges(lines, context);
  const laid: DiffLine[] = [];
  for (let place = 0; place < lines.length;) {
    const line = lines[place] ?? [];
    let end = place;
    while (end < lines.length && shown[end] !== true) end++;
    if (end - place < 2) {
      laid.push(line);
      place += 1;
    } else {
      laid.push(end - place);
      place = end;
    }
  }
  return laid;
}

/** Splits at line ends. A changed line end without other text in its line is shown as a mark. */
function logicalLines(segments: readonly Segment[]): Segment[][] {
  const lines: Segment[][] = [[]];
  for (const { kind, text } of segments) {
    const parts = plainOf(text).replaceAll('\t', '  ').split('\n');
    for (const [place, part] of parts.entries()) {
      if (place > 0) lines.push([]);
      const isLineEnd = place < parts.length - 1;
      const shown = part === '' && isLineEnd && kind !== 'same' ? '↵' : part;
      if (shown !== '') lines.at(-1)?.push({ kind, text: shown });
    }
  }
  if (lines.at(-1)?.length === 0) lines.pop();
  return lines;
}

function withMarks({ kind, text }: Segment): Segment {
  if (kind === 'same') return { kind, text };
  return { kind, text: kind === 'removed' ? `[-${text}-]` : `{+${text}+}` };
}

/** Wraps a line at blanks; a longer word is cut. */
function wrap(line: readonly Segment[], columns: number): Segment[][] {
  const lines: Segment[][] = [[]];
  let width = 0;
  const put = (kind: Kind, text: string): void => {
    const last = lines.at(-1)?.at(-1);
    if (last?.kind === kind) lines.at(-1)?.splice(-1, 1, { kind, text: last.text + text });
    else lines.at(-1)?.push({ kind, text });
    width += widthOf(text);
  };
  for (const { kind, text } of line)
    for (const word of text.split(/(?<=\s)(?=\S)/)) {
      const isTooLong = widthOf(word.trimEnd()) > columns;
      for (const part of isTooLong ? graphemesOf(word) : [word]) {
        if (width > 0 && width + widthOf(part.trimEnd()) > columns) {
          lines.push([]);
          width = 0;
        }
        put(kind, part);
      }
    }
  return lines;
}

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
const WIDE =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uFF01-\uFF60]/u;

function graphemesOf(text: string): string[] {
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

/** Returns the columns of a text in a terminal. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  return graphemesOf(text).reduce((sum, grapheme) => sum + (WIDE.test(grapheme) ? 2 : 1), 0);
}

function nearChanges(lines: readonly (readonly Segment[])[], context: number): boolean[] {
  const shown = lines.map(() => context === Number.POSITIVE_INFINITY);
  if (context === Number.POSITIVE_INFINITY) return shown;
  for (const [place, line] of lines.entries())
    if (line.some(({ kind }) => kind !== 'same'))
      shown.fill(true, Math.max(0, place - context), place + context + 1);
  return shown;
}
