import type { BlockView } from '../model/block.ts';
import type { Edited } from './edits.ts';
import { refuse, type Refusal } from './refusal.ts';

/** A line that stays, goes or comes. */
interface HunkLine {
  readonly sign: ' ' | '-' | '+';
  readonly text: string;
}

/** A change of adjacent lines. */
export interface Hunk {
  /** Lines that stay or go must stand together exactly once; without any, the added lines go to the end. */
  readonly lines: readonly HunkLine[];
  /** Number of empty lines at the end of the hunk, which may be mere spacing of the patch. */
  readonly trailing_blanks: number;
}

/** A line of a block, without its end: `\n`, `\r\n` or, for the last line, nothing. */
interface Line {
  readonly text: string;
  readonly end: string;
}

/** Characters of a line quoted in an error. */
const QUOTE_MAX = 120;
const LINES_SHOWN_MAX = 4;
/** Line comparisons that a patch may cost; thousands of equal lines would take seconds. */
const WORK_MAX = 20_000_000;
/** Cost of splitting off a line and putting it back, in comparisons, and characters for each further comparison. */
const WORK_PER_LINE = 5;
const CHARS_PER_WORK = 16;

/** Headings of the two sides of a patch; with more dashes or pluses the line is a change. */
const OLD_SIDE = /^---(?:[ \t]|$)/;
const NEW_SIDE = /^\+\+\+(?:[ \t]|$)/;

function quote(line: string): string {
  return line.length <= QUOTE_MAX ? line : `${line.slice(0, QUOTE_MAX)}…`;
}

/**
 * Parses the hunks of a block. Lines begin with a space (stays), `-` (goes) or `+` (comes).
 * An empty line is an empty line that stays; `@@` begins a new hunk. A pair of `---` and `+++` lines is a heading
 * before the first change, and a change elsewhere or alone. Any other line is refused.
 */
export function parseHunks(lines: readonly string[]): readonly Hunk[] | Refusal {
  const hunks: { lines: HunkLine[]; blanks: number }[] = [];
  for (const line of withoutHeading(lines)) {
    if (line.startsWith('@@')) {
      hunks.push({ lines: [], blanks: 0 });
      continue;
    }
    if (line === '\\ No newline at end of file') continue;
    let hunk = hunks.at(-1);
    if (hunk === undefined) hunks.push((hunk = { lines: [], blanks: 0 }));
    const text = line.slice(1);
    const sign = line === '' ? ' ' : line[0];
    if (sign !== ' ' && sign !== '-' && sign !== '+') {
      return refuse(`A line of the patch begins with neither ' ', '-', '+' nor '@@': ${quote(line)}`);
    }
    hunk.lines.push({ sign, text });
    hunk.blanks = line === '' ? hunk.blanks + 1 : 0;
  }
  return hunks
    .map(({ lines, blanks }): Hunk => {
      if (textsBefore(lines).length > blanks) return { lines, trailing_blanks: blanks };
      // Empty lines alone name no place: they separate an adding hunk from the next text.
      return { lines: lines.slice(0, lines.length - blanks), trailing_blanks: 0 };
    })
    .filter(({ lines }) => lines.length > 0);
}

/** Returns the lines that must be present. */
function textsBefore(lines: readonly HunkLine[]): readonly string[] {
  return lines.filter(({ sign }) => sign !== '+').map(({ text }) => text);
}

/** Removes the heading of the two sides and the spacing around it. */
function withoutHeading(lines: readonly string[]): readonly string[] {
  const start = lines.findIndex((line) => line !== '');
  if (start === -1) return [];
  const [first = '', second = ''] = lines.slice(start);
  const rest = lines.slice(start + 2);
  const isHeading = OLD_SIDE.test(first) && NEW_SIDE.test(second) && rest.some((line) => /^[-+]/.test(line));
  return isHeading ? rest : lines.slice(start);
}

/** Opens the work budget of a patch, for all its blocks. */
export function openWork(): Work {
  return { left: WORK_MAX };
}

/**
 * Applies all hunks to the value in order, each on the result of the earlier hunks.
 * Line ends do not matter for finding a line. Kept lines keep their end, and added lines end as the line before them in
 * the hunk. Uses up `work`.
 */
export function applyHunks(block: BlockView, hunks: readonly Hunk[], work: Work): Edited {
  if (hunks.length === 0) return refuse(`The patch for memory block '${block.label}' holds no change.`);
  const lines = splitLines(block.value);
  work.left -= lines.length * WORK_PER_LINE + Math.ceil(block.value.length / CHARS_PER_WORK);
  if (work.left < 0) {
    return refuse(
      `The patch takes memory block '${block.label}' up too often, so nothing was changed; ` +
        'put all changes of a block under one heading.',
    );
  }
  for (const hunk of hunks) {
    const placed = placeOf(lines, hunk, work);
    if ('kind' in placed)
      return { ...placed, message: `${placed.message} in memory block '${block.label}'.` };
    const { at, count, changes } = placed;
    // Moves only the lines behind it: hunks that add to the end cost only their own lines.
    const own = lines.slice(at, at + count);
    const after = lines.slice(at + count);
    lines.length = at;
    for (const line of rewrite(own, changes)) lines.push(line);
    for (const line of after) lines.push(line);
  }
  return { value: joinLines(lines) };
}

function splitLines(value: string): Line[] {
  if (value === '') return [];
  const parts = value.split('\n');
  return parts.map((part, index): Line => {
    if (index === parts.length - 1) return { text: part, end: '' };
    return part.endsWith('\r') ? { text: part.slice(0, -1), end: '\r\n' } : { text: part, end: '\n' };
  });
}

/** Joins lines. A former last line without an end gets the end of the last other line. */
function joinLines(lines: readonly Line[]): string {
  const usual = lines.findLast(({ end }) => end !== '')?.end ?? '\n';
  return lines
    .map(({ text, end }, index) => (index === lines.length - 1 ? text : text + (end || usual)))
    .join('');
}

/** Applies the changes to the lines of the block. */
function rewrite(own: readonly Line[], changes: readonly HunkLine[]): readonly Line[] {
  let place = 0;
  let end = own[0]?.end ?? '';
  return changes.flatMap(({ sign, text }): readonly Line[] => {
    if (sign === '+') return [{ text, end }];
    const line = own[place++] ?? { text, end };
    ({ end } = line);
    return sign === ' ' ? [line] : [];
  });
}

/** Place, length and lines of a change in a block. */
interface Placed {
  readonly at: number;
  readonly count: number;
  readonly changes: readonly HunkLine[];
}

function placeOf(lines: readonly Line[], hunk: Hunk, work: Work): Placed | Refusal {
  const whole = textsBefore(hunk.lines);
  if (whole.length === 0) {
    // Behind a final line end there is no further line.
    const at = lines.at(-1)?.text === '' ? lines.length - 1 : lines.length;
    return { at, count: 0, changes: hunk.lines };
  }
  const trimmed = whole.length - hunk.trailing_blanks;
  for (const cut of hunk.trailing_blanks > 0 && trimmed > 0 ? [0, hunk.trailing_blanks] : [0]) {
    const before = whole.slice(0, whole.length - cut);
    const places = findLines(lines, before, work);
    if (work.left < 0) {
      return refuse(
        'Too many lines are alike to find those of a hunk, so nothing was changed; ' +
          'use a smaller hunk, around a line that stands only once',
      );
    }
    const [at] = places;
    if (at === undefined) continue;
    if (places.length > 1) {
      return refuse(
        `The lines of a hunk stand in more than one place (lines ${places.map((place) => place + 1).join(', ')}…); ` +
          'nothing was changed. Add surrounding lines to make them unique',
      );
    }
    return { at, count: before.length, changes: hunk.lines.slice(0, hunk.lines.length - cut) };
  }
  const shown = whole.slice(0, LINES_SHOWN_MAX).map((line) => `\n${quote(line)}`);
  return refuse(`These lines of a hunk do not stand together, so nothing was changed:${shown.join('')}\n`);
}

/** Remaining comparisons. */
export interface Work {
  left: number;
}

/** Returns the first two places where `part` begins in `lines`, as far as they exist and work is left. */
function findLines(lines: readonly Line[], part: readonly string[], work: Work): readonly number[] {
  const places: number[] = [];
  for (let at = 0; at + part.length <= lines.length && places.length < 2 && work.left >= 0; at++) {
    let same = 0;
    while (same < part.length && lines[at + same]?.text === part[same]) same++;
    work.left -= same + 1;
    if (same === part.length) places.push(at);
  }
  return places;
}
