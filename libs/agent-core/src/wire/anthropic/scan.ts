/**
 * Finds the raw text of `result.message.content` in a result line, in a single pass without building anything. In valid
 * JSON the span is the value that `JSON.parse` would give. In invalid JSON the pass still ends, and the parser that
 * follows reports it.
 */
import { JSON_DEPTH_MAX } from '../../base/json.ts';

export interface LineScan {
  /** Index of the content's first character and index after its last; -1 without the member. */
  content_start: number;
  content_end: number;
  too_deep: boolean;
}

/** Members on the way to the content, from the outside in. */
const PATH = ['result', 'message', 'content'] as const;

/** Levels of a line: those above the content, and the storable levels of it. */
const DEPTH_MAX = PATH.length + JSON_DEPTH_MAX;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Returned instead of an index when the text ends or is no JSON. */
const BROKEN = -1;

/** Scans a line in time linear in its length. */
export function scanResultLine(line: string): LineScan {
  const scan: LineScan = { content_start: -1, content_end: -1, too_deep: false };
  const start = skipSpace(line, 0);
  if (line.charCodeAt(start) === OPEN_BRACE) scanObject(line, start, 0, scan);
  else skipValue(line, start, 0, scan);
  return scan;
}

/** Returns the raw texts of the elements of a JSON array, which must not nest too deep to store. */
export function elementsOf(array: string): readonly string[] {
  const scan: LineScan = { content_start: -1, content_end: -1, too_deep: false };
  const elements: string[] = [];
  let i = skipSpace(array, 1);
  while (i < array.length && array.charCodeAt(i) !== CLOSE_BRACKET) {
    const end = skipValue(array, i, 0, scan);
    if (end === BROKEN) throw new SyntaxError('The text is no JSON array.');
    elements.push(array.slice(i, end));
    i = skipSpace(array, end);
    if (array.charCodeAt(i) === COMMA) i = skipSpace(array, i + 1);
  }
  return elements;
}

/** Walks the members of the object at `i`, `level` objects deep. Returns the index after it. */
function scanObject(line: string, i: number, level: number, scan: LineScan): number {
  i = skipSpace(line, i + 1);
  while (line.charCodeAt(i) === QUOTE) {
    const keyEnd = skipString(line, i);
    if (keyEnd === BROKEN) return BROKEN;
    const isOnPath = keyEquals(line, i, keyEnd, PATH[level] as string);
    i = skipSpace(line, keyEnd);
    if (line.charCodeAt(i) !== COLON) return BROKEN;
    i = skipSpace(line, i + 1);

    const valueStart = i;
    if (!isOnPath) i = skipValue(line, i, level + 1, scan);
    else {
      // Of members with equal names the last counts: forget the earlier value.
      scan.content_start = -1;
      scan.content_end = -1;
      const isLast = level === PATH.length - 1;
      if (isLast || line.charCodeAt(i) !== OPEN_BRACE) i = skipValue(line, i, level + 1, scan);
      else i = scanObject(line, i, level + 1, scan);
      if (isLast && i !== BROKEN) {
        scan.content_start = valueStart;
        scan.content_end = i;
      }
    }
    if (i === BROKEN) return BROKEN;

    i = skipSpace(line, i);
    if (line.charCodeAt(i) !== COMMA) break;
    i = skipSpace(line, i + 1);
  }
  return line.charCodeAt(i) === CLOSE_BRACE ? i + 1 : BROKEN;
}

/** Compares the quoted key at `start` with a name; a key may spell its letters as escapes. */
function keyEquals(line: string, start: number, end: number, name: string): boolean {
  if (end - start === name.length + 2) return line.startsWith(name, start + 1);
  if (!hasEscape(line, start, end)) return false;
  try {
    return JSON.parse(line.slice(start, end)) === name;
  } catch {
    return false;
  }
}

function hasEscape(line: string, start: number, end: number): boolean {
  while (start < end && line.charCodeAt(start) !== BACKSLASH) start++;
  return start < end;
}

/** Returns the index after the value at `i`, which lies `level` levels deep. */
function skipValue(line: string, i: number, level: number, scan: LineScan): number {
  const first = line.charCodeAt(i);
  if (first === QUOTE) return skipString(line, i);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return skipScalar(line, i);
  const outside = level;
  for (;;) {
    const code = line.charCodeAt(i);
    if (code === QUOTE) {
      i = skipString(line, i);
      if (i === BROKEN) return BROKEN;
      continue;
    }
    i++;
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      level++;
      if (level > DEPTH_MAX) {
        scan.too_deep = true;
        return BROKEN;
      }
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      level--;
      if (level === outside) return i;
    } else if (i > line.length) return BROKEN;
  }
}

/** Returns the index after the string whose opening quote is at `i`. */
function skipString(line: string, i: number): number {
  for (let quote = line.indexOf('"', i + 1); quote !== -1; quote = line.indexOf('"', quote + 1)) {
    let before = quote - 1;
    while (line.charCodeAt(before) === BACKSLASH) before--;
    // An even number of backslashes escape one another and leave the quote free to close.
    if ((quote - before) % 2 === 1) return quote + 1;
  }
  return BROKEN;
}

/** Returns the index after the number, `true`, `false` or `null` at `i`. */
function skipScalar(line: string, i: number): number {
  const start = i;
  while (i < line.length && !endsScalar(line.charCodeAt(i))) i++;
  return i === start ? BROKEN : i;
}

function endsScalar(code: number): boolean {
  return code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isSpace(code);
}

function skipSpace(line: string, i: number): number {
  while (isSpace(line.charCodeAt(i))) i++;
  return i;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}
