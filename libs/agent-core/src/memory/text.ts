/** Counts the code points of a text, the unit of block limits, as in Letta. A lone surrogate counts 1. */
export function codePointLength(text: string): number {
  let length = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      length--;
      i++;
    }
  }
  return length;
}

/**
 * Returns the positions of `part` in `text`, in order, overlaps included.
 * Stops after `max`, so that a text of a repeated letter stays cheap. An empty part has no position.
 */
export function findOccurrences(text: string, part: string, max: number): readonly number[] {
  const starts: number[] = [];
  if (part === '') return starts;
  let start = text.indexOf(part);
  while (start !== -1 && starts.length < max) {
    starts.push(start);
    start = text.indexOf(part, start + 1);
  }
  return starts;
}

/** Returns the distinct line numbers, from 1, of the ascending `positions`. */
export function lineNumbersOf(text: string, positions: readonly number[]): readonly number[] {
  const lines = new Set<number>();
  let line = 1;
  let newline = text.indexOf('\n');
  for (const position of positions) {
    while (newline !== -1 && newline < position) {
      line++;
      newline = text.indexOf('\n', newline + 1);
    }
    lines.add(line);
  }
  return [...lines];
}

const TAB_WIDTH = 8;

interface Cell {
  /** Position in the text, and in the text with its tabs expanded. */
  readonly raw: number;
  readonly expanded: number;
  /** Columns that this character takes. */
  readonly width: number;
}

/** Walks a text with its terminal columns; a tab reaches to the next multiple of eight. */
function* cellsOf(text: string): Generator<Cell> {
  let column = 0;
  let expanded = 0;
  for (let raw = 0; raw < text.length; raw++) {
    const code = text.charCodeAt(raw);
    const width = code === 0x09 ? TAB_WIDTH - (column % TAB_WIDTH) : 1;
    yield { raw, expanded, width };
    expanded += width;
    if (code === 0x0a || code === 0x0d) column = 0;
    // The second half of a surrogate pair takes no column of its own.
    else if ((code & 0xfc00) !== 0xdc00) column += width;
  }
}

/** Replaces every tab by its spaces. */
export function expandTabs(text: string): string {
  if (!text.includes('\t')) return text;
  let out = '';
  for (const { raw, width } of cellsOf(text))
    out += text[raw] === '\t' ? ' '.repeat(width) : text.charAt(raw);
  return out;
}

/**
 * Replaces the span from `from` to `to` of the expanded text in the original text.
 * Other tabs stay; a tab cut in two leaves the rest of its spaces.
 */
export function replaceExpandedSpan(text: string, from: number, to: number, replacement: string): string {
  let before = '';
  let after = '';
  for (const { raw, expanded, width } of cellsOf(text)) {
    if (from >= expanded && from < expanded + width)
      before = text.slice(0, raw) + ' '.repeat(from - expanded);
    if (to > expanded && to <= expanded + width) {
      after = ' '.repeat(expanded + width - to) + text.slice(raw + 1);
      break;
    }
  }
  return before + replacement + after;
}
