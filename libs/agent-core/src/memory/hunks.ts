import type { BlockView } from '../model/block.ts';
import type { Edited, Refusal } from './edits.ts';

/** A change of adjacent lines: what stands there, and what is to stand there. */
export interface Hunk {
  /** Lines that must stand together in exactly one place; none: `after` goes to the end. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** How many of both end the hunk as lines without any character, which may be mere spacing of the patch. */
  readonly trailing_blanks: number;
}

/** Characters of a line that an error repeats. */
const QUOTE_MAX = 120;
const LINES_SHOWN_MAX = 4;

function refuse(message: string): Refusal {
  return { kind: 'ValueError', message };
}

function quote(line: string): string {
  return line.length <= QUOTE_MAX ? line : `${line.slice(0, QUOTE_MAX)}…`;
}

/**
 * Reads the hunks of one block. Lines begin with a space (stays), `-` (goes) or `+` (comes); an empty line is an empty
 * line that stays; `@@` begins a new hunk. A pair of `---` and `+++` lines is a heading before the first hunk, and a
 * change anywhere else. Any other line is refused, not skipped.
 */
export function parseHunks(lines: readonly string[]): readonly Hunk[] | Refusal {
  const hunks: { before: string[]; after: string[]; blanks: number }[] = [];
  for (const line of withoutHeading(lines)) {
    if (line.startsWith('@@')) {
      hunks.push({ before: [], after: [], blanks: 0 });
      continue;
    }
    if (line === '\\ No newline at end of file') continue;
    let hunk = hunks.at(-1);
    if (hunk === undefined) hunks.push((hunk = { before: [], after: [], blanks: 0 }));
    const text = line.slice(1);
    const sign = line === '' ? ' ' : line[0];
    if (sign !== ' ' && sign !== '-' && sign !== '+') {
      return refuse(`A line of the patch begins with neither ' ', '-', '+' nor '@@': ${quote(line)}`);
    }
    if (sign !== '+') hunk.before.push(text);
    if (sign !== '-') hunk.after.push(text);
    hunk.blanks = line === '' ? hunk.blanks + 1 : 0;
  }
  return hunks
    .map(({ before, after, blanks }): Hunk => {
      if (before.length > blanks) return { before, after, trailing_blanks: blanks };
      // Empty lines alone say nothing of a place: they space a hunk that only adds from what follows it.
      return { before: [], after: after.slice(0, after.length - blanks), trailing_blanks: 0 };
    })
    .filter(({ before, after }) => before.length > 0 || after.length > 0);
}

/** Without the pair of lines that names the two sides, and the spacing around it. */
function withoutHeading(lines: readonly string[]): readonly string[] {
  const start = lines.findIndex((line) => line !== '');
  if (start === -1) return [];
  const [first = '', second = ''] = lines.slice(start);
  const isHeading = first.startsWith('---') && second.startsWith('+++');
  return lines.slice(isHeading ? start + 2 : start);
}

/** The value with all hunks applied, in order, each on what the ones before it left. */
export function applyHunks(block: BlockView, hunks: readonly Hunk[]): Edited {
  if (hunks.length === 0) return refuse(`The patch for memory block '${block.label}' holds no change.`);
  let lines = block.value === '' ? [] : block.value.split('\n');
  for (const hunk of hunks) {
    if (hunk.before.length === 0) {
      lines = [...lines, ...hunk.after];
      continue;
    }
    const placed = placeOf(lines, hunk);
    if ('kind' in placed)
      return { ...placed, message: `${placed.message} in memory block '${block.label}'.` };
    const { at, before, after } = placed;
    lines = [...lines.slice(0, at), ...after, ...lines.slice(at + before.length)];
  }
  return { value: lines.join('\n') };
}

function placeOf(
  lines: readonly string[],
  hunk: Hunk,
): { readonly at: number; readonly before: readonly string[]; readonly after: readonly string[] } | Refusal {
  const trimmed = hunk.before.length - hunk.trailing_blanks;
  for (const cut of hunk.trailing_blanks > 0 && trimmed > 0 ? [0, hunk.trailing_blanks] : [0]) {
    const before = hunk.before.slice(0, hunk.before.length - cut);
    const places = findLines(lines, before, 2);
    const [at] = places;
    if (at === undefined) continue;
    if (places.length > 1) {
      return refuse(
        `The lines of a hunk stand in more than one place (lines ${places.map((place) => place + 1).join(', ')}…); ` +
          'nothing was changed. Add surrounding lines to make them unique',
      );
    }
    return { at, before, after: hunk.after.slice(0, hunk.after.length - cut) };
  }
  const shown = hunk.before.slice(0, LINES_SHOWN_MAX).map((line) => `\n${quote(line)}`);
  return refuse(`These lines of a hunk do not stand together, so nothing was changed:${shown.join('')}\n`);
}

/** Where `part` begins in `lines`, at most `max` places. */
function findLines(lines: readonly string[], part: readonly string[], max: number): readonly number[] {
  const places: number[] = [];
  for (let at = 0; at + part.length <= lines.length && places.length < max; at++) {
    if (part.every((line, offset) => lines[at + offset] === line)) places.push(at);
  }
  return places;
}
