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
  /** Those that stay or go must stand together in exactly one place; without any, the others go to the end. */
  readonly lines: readonly HunkLine[];
  /** How many of them end the hunk without any character, which may be mere spacing of the patch. */
  readonly trailing_blanks: number;
}

/** A line of a block, without what ends it: `\n`, `\r\n` or, for the last one, nothing. */
interface Line {
  readonly text: string;
  readonly end: string;
}

/** Characters of a line that an error repeats. */
const QUOTE_MAX = 120;
const LINES_SHOWN_MAX = 4;
/** Comparisons of lines that one patch may cost; thousands of lines alike would take seconds. */
const WORK_MAX = 20_000_000;
/** What taking a line out of a block's text and putting it back costs, in comparisons, and how many characters of it cost one more. */
const WORK_PER_LINE = 5;
const CHARS_PER_WORK = 16;

/** Lines that name the two sides of a patch; further dashes or pluses would be those of a line that goes or comes. */
const OLD_SIDE = /^---(?:[ \t]|$)/;
const NEW_SIDE = /^\+\+\+(?:[ \t]|$)/;

function quote(line: string): string {
  return line.length <= QUOTE_MAX ? line : `${line.slice(0, QUOTE_MAX)}…`;
}

/**
 * Reads the hunks of one block. Lines begin with a space (stays), `-` (goes) or `+` (comes); an empty line is an empty
 * line that stays; `@@` begins a new hunk. A pair of `---` and `+++` lines is a heading before the first change, and a
 * change itself anywhere else, and alone. Any other line is refused, not skipped.
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
      // Empty lines alone say nothing of a place: they space a hunk that only adds from what follows it.
      return { lines: lines.slice(0, lines.length - blanks), trailing_blanks: 0 };
    })
    .filter(({ lines }) => lines.length > 0);
}

/** What must stand there. */
function textsBefore(lines: readonly HunkLine[]): readonly string[] {
  return lines.filter(({ sign }) => sign !== '+').map(({ text }) => text);
}

/** Without the pair of lines that names the two sides, and the spacing around it. */
function withoutHeading(lines: readonly string[]): readonly string[] {
  const start = lines.findIndex((line) => line !== '');
  if (start === -1) return [];
  const [first = '', second = ''] = lines.slice(start);
  const rest = lines.slice(start + 2);
  const isHeading = OLD_SIDE.test(first) && NEW_SIDE.test(second) && rest.some((line) => /^[-+]/.test(line));
  return isHeading ? rest : lines.slice(start);
}

/** The work that a patch may cost, whatever blocks it is about. */
export function openWork(): Work {
  return { left: WORK_MAX };
}

/**
 * The value with all hunks applied, in order, each on what the ones before it left. A line is found whichever way it ends;
 * what stays keeps its own end, and what comes ends as the line before it in the hunk. Takes what it costs from `work`.
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
    // Only what comes after it is moved: hunks that add to the end cost what they add.
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

/** A line that was the last one, and is not any more, ends as the last of the others. */
function joinLines(lines: readonly Line[]): string {
  const usual = lines.findLast(({ end }) => end !== '')?.end ?? '\n';
  return lines
    .map(({ text, end }, index) => (index === lines.length - 1 ? text : text + (end || usual)))
    .join('');
}

/** The lines of the block with the changes made to them. */
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

/** Where lines of a block are to change, how many, and how. */
interface Placed {
  readonly at: number;
  readonly count: number;
  readonly changes: readonly HunkLine[];
}

function placeOf(lines: readonly Line[], hunk: Hunk, work: Work): Placed | Refusal {
  const whole = textsBefore(hunk.lines);
  if (whole.length === 0) {
    // A value that ends its last line has no line after it.
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

/** Comparisons that may still be made. */
export interface Work {
  left: number;
}

/** The first two places where `part` begins in `lines`; fewer where there are not as many, or no work is left. */
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
