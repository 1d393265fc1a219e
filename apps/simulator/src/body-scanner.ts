/** The envelope of one element of `requests`, and the position of its params in the body. Unit: bytes. */
export interface ScannedItem {
  readonly index: number;
  /** Undefined if absent, null if it is not a string. */
  readonly custom_id: string | null | undefined;
  /** Undefined if absent or not an object; may be another object in an element with an unknown key. */
  readonly params: { readonly offset: number; readonly length: number } | undefined;
  /** The first unknown member. */
  readonly unknown_key: string | undefined;
  /** False if the element is not an object. */
  readonly is_object: boolean;
}

/** The envelope of the whole body. */
export interface ScannedBody {
  readonly is_object: boolean;
  /** Undefined without `requests`. */
  readonly requests: 'list' | 'other' | undefined;
  readonly count: number;
  readonly unknown_key: string | undefined;
}

/** Receives the body in chunks of any size. */
export interface BodyScanner {
  /**
   * Adds a chunk. Its bytes are kept until the end of their element.
   * Throws: SyntaxError for an element that is not JSON.
   */
  push(bytes: Uint8Array): void;
  /**
   * Completes the scan.
   * Throws: SyntaxError when the body is incomplete, or no JSON outside of `requests`.
   */
  end(): ScannedBody;
}

/** Position in the body, and the part that is gathered for JSON.parse. */
interface Scan {
  readonly onItem: (item: ScannedItem) => void;
  /** Offset of the current chunk. */
  base: number;
  depth: number;
  inString: boolean;
  isEscaped: boolean;
  inRequests: boolean;
  count: number;
  /** Earlier chunks of the gathered part, and its offset. */
  gathered: Uint8Array[];
  partOffset: number;
  /** Offsets of the last object among the members of the current element. */
  memberStart: number;
  memberEnd: number;
  /** The body without the elements of `requests`. */
  frame: string;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Depth of the members of the body, of the elements of `requests`, and of the members of these. */
const MEMBERS = 1;
const ELEMENTS = 2;
const ELEMENT_MEMBERS = 3;

/**
 * Splits a body of hundreds of megabytes into its requests without buffering it.
 *
 * It follows brackets and strings byte by byte and parses each element of the top-level list `requests` separately, and the
 * rest of the body at its end. `onItem` gets each element in order; a second index 0 starts a second list of that name.
 * Unlike `JSON.parse`, it refuses escaped lone surrogates.
 */
export function createBodyScanner(onItem: (item: ScannedItem) => void): BodyScanner {
  const scan: Scan = {
    onItem,
    base: 0,
    depth: 0,
    inString: false,
    isEscaped: false,
    inRequests: false,
    count: 0,
    gathered: [],
    partOffset: 0,
    memberStart: -1,
    memberEnd: -1,
    frame: '',
  };
  return { push: (bytes) => scanPiece(scan, bytes), end: () => endOf(scan) };
}

function scanPiece(scan: Scan, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; at++) {
    if (scan.inString) {
      at = endOfString(scan, bytes, at);
      continue;
    }
    const byte = bytes[at] as number;
    if (byte === QUOTE) scan.inString = true;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) open(scan, bytes, at, byte);
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) close(scan, bytes, at);
    else if (byte === COMMA) separate(scan, bytes, at);
  }
  scan.gathered.push(bytes.subarray(Math.max(0, scan.partOffset - scan.base)));
  scan.base += bytes.length;
}

/** Returns the end of the current string, or of the chunk. */
function endOfString(scan: Scan, bytes: Uint8Array, from: number): number {
  let { isEscaped } = scan;
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (isEscaped) isEscaped = false;
    else if (byte === BACKSLASH) isEscaped = true;
    else if (byte === QUOTE) {
      scan.inString = false;
      break;
    }
  }
  scan.isEscaped = isEscaped;
  return at;
}

function open(scan: Scan, bytes: Uint8Array, at: number, byte: number): void {
  scan.depth++;
  if (scan.depth === MEMBERS) scan.frame += takePart(scan, bytes, at + 1);
  else if (scan.depth === ELEMENTS && byte === OPEN_LIST) {
    const member = takePart(scan, bytes, at + 1);
    scan.frame += member;
    scan.inRequests = nameOf(member) === 'requests';
    if (scan.inRequests) scan.count = 0;
  } else if (scan.depth === ELEMENT_MEMBERS + 1 && byte === OPEN_OBJECT) scan.memberStart = scan.base + at;
}

function close(scan: Scan, bytes: Uint8Array, at: number): void {
  scan.depth--;
  if (scan.depth === ELEMENT_MEMBERS) scan.memberEnd = scan.base + at + 1;
  if (scan.depth !== MEMBERS || !scan.inRequests) return;
  endItem(scan, bytes, at, scan.count === 0);
  scan.inRequests = false;
}

function separate(scan: Scan, bytes: Uint8Array, at: number): void {
  if (scan.depth === ELEMENTS && scan.inRequests) {
    endItem(scan, bytes, at, false);
    scan.partOffset++;
  } else if (scan.depth === MEMBERS) scan.frame += takePart(scan, bytes, at);
}

/** Takes the gathered text up to byte `at` of the current chunk, where the next part starts. */
function takePart(scan: Scan, bytes: Uint8Array, at: number): string {
  const { gathered, partOffset } = scan;
  gathered.push(bytes.subarray(Math.max(0, partOffset - scan.base), at));
  scan.gathered = [];
  scan.partOffset = scan.base + at;
  const text = Buffer.concat(gathered).toString();
  refuseHalfPairs(text, partOffset);
  return text;
}

function endItem(scan: Scan, bytes: Uint8Array, at: number, mayBeBlank: boolean): void {
  const offset = scan.partOffset;
  const text = takePart(scan, bytes, at);
  if (mayBeBlank && /^[ \t\r\n]*$/.test(text)) return;
  const element = parse(text, `requests.${scan.count}, from byte ${offset}`);
  const { custom_id, params, ...others } = isObject(element) ? element : {};
  scan.onItem({
    index: scan.count++,
    custom_id: custom_id === undefined || typeof custom_id === 'string' ? custom_id : null,
    // The last object among the members is `params`, since only an unknown key could hold another.
    params: isObject(params)
      ? { offset: scan.memberStart, length: scan.memberEnd - scan.memberStart }
      : undefined,
    unknown_key: Object.keys(others)[0],
    is_object: isObject(element),
  });
}

function endOf(scan: Scan): ScannedBody {
  const body = parse(scan.frame + takePart(scan, new Uint8Array(), 0), 'outside of the requests');
  const { requests, ...others } = isObject(body) ? body : {};
  return {
    is_object: isObject(body),
    requests: requests === undefined ? undefined : Array.isArray(requests) ? 'list' : 'other',
    count: scan.count,
    unknown_key: Object.keys(others)[0],
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parse(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`${(error as SyntaxError).message} (${place})`);
  }
}

/** Returns the name in `{"name":[` or `,"name":[`; undefined for a list without a name. */
function nameOf(member: string): string | undefined {
  try {
    return Object.keys(JSON.parse(`{${member.replace(/^\s*,/, '')}]}`) as object)[0];
  } catch {
    return undefined;
  }
}

/** Matches escapes: a surrogate pair, a lone high surrogate, a lone low surrogate, any other. */
const ESCAPES = /\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89abAB]..)|u([dD][c-fC-F]..)|[^])/g;
const ESCAPE_CHARS = 6;

/**
 * Checks for escaped lone surrogates; `offset` is the position of the text in the body.
 * Throws: SyntaxError.
 */
function refuseHalfPairs(text: string, offset: number): void {
  if (!/\\u[dD]/.test(text)) return;
  const byteAt = (index: number): number => offset + Buffer.byteLength(text.slice(0, index));
  for (const { 1: high, 2: low, index } of text.matchAll(ESCAPES)) {
    if (low !== undefined) throw new SyntaxError(`invalid high surrogate in string at byte ${byteAt(index)}`);
    if (high === undefined) continue;
    const next = index + ESCAPE_CHARS;
    if (text.startsWith('\\u', next))
      throw new SyntaxError(`invalid low surrogate in string at byte ${byteAt(next)}`);
    const found = text[next] === '\\' ? next + 1 : next;
    throw new SyntaxError(`no low surrogate in string at byte ${byteAt(found)}`);
  }
}
