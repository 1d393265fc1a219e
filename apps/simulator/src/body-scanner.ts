/** Where one element of `requests` lies in the body, and what its envelope says. Offsets are bytes from the start. */
export interface ScannedItem {
  readonly index: number;
  /** Undefined when absent, null when it is not a string. */
  readonly custom_id: string | null | undefined;
  /** Undefined when absent or not an object. */
  readonly params: { readonly offset: number; readonly length: number } | undefined;
  /** The first member that an element may not have. */
  readonly unknown_key: string | undefined;
  /** False when the element is not an object. */
  readonly is_object: boolean;
}

/** What the body as a whole turned out to be. */
export interface ScannedBody {
  readonly is_object: boolean;
  /** Undefined when the body has no `requests`. */
  readonly requests: 'list' | 'other' | undefined;
  readonly count: number;
  readonly unknown_key: string | undefined;
}

/** Takes the body in pieces of any size. */
export interface BodyScanner {
  /** Throws a SyntaxError at the first byte that no JSON text can have there. */
  push(bytes: Uint8Array): void;
  /** Throws a SyntaxError when the text is incomplete. */
  end(): ScannedBody;
}

/** Longest member name or custom id that is kept; a longer one is cut, which keeps it invalid. */
const CAPTURE_LIMIT = 600;
const MAX_DEPTH = 4096;

const EXPECT_VALUE = 0;
const EXPECT_VALUE_OR_CLOSE = 1;
const EXPECT_KEY = 2;
const EXPECT_KEY_OR_CLOSE = 3;
const EXPECT_COLON = 4;
const AFTER_VALUE = 5;
const IN_STRING = 6;
const IN_ESCAPE = 7;
const IN_UNICODE = 8;
const IN_LITERAL = 9;
const NUMBER_SIGN = 10;
const NUMBER_ZERO = 11;
const NUMBER_INT = 12;
const NUMBER_DOT = 13;
const NUMBER_FRACTION = 14;
const NUMBER_E = 15;
const NUMBER_E_SIGN = 16;
const NUMBER_EXP = 17;
const DONE = 18;
const AFTER_HIGH = 19;
const AFTER_HIGH_ESCAPE = 20;

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
const isHex = (byte: number): boolean =>
  isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
const hexValue = (byte: number): number => (isDigit(byte) ? byte - 0x30 : (byte & 0x0f) + 9);

/**
 * A JSON recogniser that works byte by byte and may be interrupted between any two, so that a body of hundreds of
 * megabytes is checked and cut into its requests without ever being held. `onItem` is called once for each element of
 * the top-level list `requests`, in order. It refuses an escaped half of a surrogate pair, which `JSON.parse` takes.
 */
export function createBodyScanner(onItem: (item: ScannedItem) => void): BodyScanner {
  let state = EXPECT_VALUE;
  let offset = 0;
  let depth = 0;
  /** Bit per depth: 1 object, 0 list. */
  const isObjectAt = new Uint8Array(MAX_DEPTH);
  let stringIsKey = false;
  let unicodeLeft = 0;
  let unicode = 0;
  let isLowDue = false;
  let literal = '';
  let literalAt = 0;
  let capturing = false;
  const captured = Buffer.alloc(CAPTURE_LIMIT + 16);
  let capturedLength = 0;

  let rootIsObject = false;
  let rootKey: string | undefined;
  let rootUnknownKey: string | undefined;
  let requests: 'list' | 'other' | undefined;
  let inRequests = false;
  let count = 0;

  let itemKey: string | undefined;
  let itemIsObject = false;
  let itemCustomId: string | null | undefined;
  let itemParams: { offset: number; length: number } | undefined;
  let itemParamsStart = -1;
  let itemUnknownKey: string | undefined;

  function fail(byte: number): never {
    const shown =
      byte >= 0x20 && byte < 0x7f ? `"${String.fromCharCode(byte)}"` : `byte 0x${byte.toString(16)}`;
    throw new SyntaxError(`unexpected ${shown} at byte ${offset}`);
  }

  /** An escape of four digits has ended at `offset`. A pair of surrogates takes two of them. */
  function unicodeEnded(): void {
    state = IN_STRING;
    const half = unicode & 0xfc00;
    if (isLowDue) {
      if (half !== 0xdc00) throw new SyntaxError(`invalid low surrogate in string at byte ${offset - 5}`);
      isLowDue = false;
    } else if (half === 0xd800) {
      isLowDue = true;
      state = AFTER_HIGH;
    } else if (half === 0xdc00) {
      throw new SyntaxError(`invalid high surrogate in string at byte ${offset - 5}`);
    }
  }

  function takeCaptured(): string {
    capturing = false;
    const text = captured.toString('utf8', 0, Math.min(capturedLength, CAPTURE_LIMIT));
    if (!text.includes('\\')) return text;
    try {
      return JSON.parse(`"${text}"`) as string;
    } catch {
      return text;
    }
  }

  function beginItem(isObject: boolean): void {
    itemKey = undefined;
    itemIsObject = isObject;
    itemCustomId = undefined;
    itemParams = undefined;
    itemUnknownKey = undefined;
  }

  function endItem(): void {
    onItem({
      index: count++,
      custom_id: itemCustomId,
      params: itemParams,
      unknown_key: itemUnknownKey,
      is_object: itemIsObject,
    });
  }

  /** A value starts at `offset`; `kind` is its first byte. */
  function valueStarts(kind: number): void {
    if (depth === 0) rootIsObject = kind === 0x7b;
    else if (depth === 1 && rootIsObject && rootKey === 'requests') {
      inRequests = kind === 0x5b;
      requests = inRequests ? 'list' : 'other';
      if (inRequests) count = 0;
    } else if (depth === 2 && inRequests) beginItem(kind === 0x7b);
    else if (depth === 3 && inRequests && itemIsObject) {
      if (itemKey === 'custom_id') {
        itemCustomId = null;
        capturing = kind === 0x22;
        capturedLength = 0;
      } else if (itemKey === 'params') {
        itemParams = undefined;
        itemParamsStart = kind === 0x7b ? offset : -1;
      }
    }
  }

  /** A value ended just before byte `end`. */
  function valueEnded(end: number): void {
    state = depth === 0 ? DONE : AFTER_VALUE;
    if (!inRequests) return;
    if (depth === 3 && itemIsObject && itemParamsStart >= 0) {
      itemParams = { offset: itemParamsStart, length: end - itemParamsStart };
      itemParamsStart = -1;
    } else if (depth === 2) endItem();
    else if (depth === 1) inRequests = false;
  }

  function open(isObject: boolean): void {
    if (depth >= MAX_DEPTH - 1)
      throw new SyntaxError(`nested more than ${MAX_DEPTH} levels deep at byte ${offset}`);
    isObjectAt[++depth] = isObject ? 1 : 0;
    state = isObject ? EXPECT_KEY_OR_CLOSE : EXPECT_VALUE_OR_CLOSE;
  }

  function close(isObject: boolean, byte: number): void {
    if (depth === 0 || (isObjectAt[depth] === 1) !== isObject) fail(byte);
    depth--;
    valueEnded(offset + 1);
  }

  function beginLiteral(text: string): void {
    literal = text;
    literalAt = 1;
    state = IN_LITERAL;
  }

  function beginValue(byte: number): void {
    valueStarts(byte);
    if (byte === 0x22) {
      stringIsKey = false;
      state = IN_STRING;
    } else if (byte === 0x7b) open(true);
    else if (byte === 0x5b) open(false);
    else if (byte === 0x2d) state = NUMBER_SIGN;
    else if (byte === 0x30) state = NUMBER_ZERO;
    else if (byte >= 0x31 && byte <= 0x39) state = NUMBER_INT;
    else if (byte === 0x74) beginLiteral('true');
    else if (byte === 0x66) beginLiteral('false');
    else if (byte === 0x6e) beginLiteral('null');
    else fail(byte);
  }

  function beginKey(byte: number): void {
    if (byte !== 0x22) fail(byte);
    stringIsKey = true;
    capturing = depth === 1 || (depth === 3 && inRequests);
    capturedLength = 0;
    state = IN_STRING;
  }

  function stringEnded(): void {
    if (!stringIsKey) {
      if (capturing) itemCustomId = takeCaptured();
      valueEnded(offset + 1);
      return;
    }
    state = EXPECT_COLON;
    if (!capturing) return;
    const key = takeCaptured();
    if (depth === 1) {
      rootKey = key;
      if (key !== 'requests') rootUnknownKey ??= key;
    } else {
      itemKey = key;
      if (key !== 'custom_id' && key !== 'params') itemUnknownKey ??= key;
    }
  }

  function capture(bytes: Uint8Array, from: number, to: number): void {
    const room = CAPTURE_LIMIT + 8 - capturedLength;
    if (room <= 0) return;
    const piece = bytes.subarray(from, Math.min(to, from + room));
    captured.set(piece, capturedLength);
    capturedLength += piece.length;
  }

  function afterValue(byte: number): void {
    if (byte === 0x2c) state = isObjectAt[depth] === 1 ? EXPECT_KEY : EXPECT_VALUE;
    else if (byte === 0x7d) close(true, byte);
    else if (byte === 0x5d) close(false, byte);
    else if (!isSpace(byte)) fail(byte);
  }

  /** The byte that follows a complete number belongs to what encloses it. */
  function numberEnded(byte: number): void {
    valueEnded(offset);
    if (state === DONE) {
      if (!isSpace(byte)) fail(byte);
    } else afterValue(byte);
  }

  function numberByte(byte: number): void {
    switch (state) {
      case NUMBER_SIGN:
        if (byte === 0x30) state = NUMBER_ZERO;
        else if (isDigit(byte)) state = NUMBER_INT;
        else fail(byte);
        return;
      case NUMBER_ZERO:
      case NUMBER_INT:
        if (state === NUMBER_INT && isDigit(byte)) return;
        if (byte === 0x2e) state = NUMBER_DOT;
        else if (byte === 0x65 || byte === 0x45) state = NUMBER_E;
        else numberEnded(byte);
        return;
      case NUMBER_DOT:
        if (!isDigit(byte)) fail(byte);
        state = NUMBER_FRACTION;
        return;
      case NUMBER_FRACTION:
        if (isDigit(byte)) return;
        if (byte === 0x65 || byte === 0x45) state = NUMBER_E;
        else numberEnded(byte);
        return;
      case NUMBER_E:
        if (byte === 0x2b || byte === 0x2d) state = NUMBER_E_SIGN;
        else if (isDigit(byte)) state = NUMBER_EXP;
        else fail(byte);
        return;
      case NUMBER_E_SIGN:
        if (!isDigit(byte)) fail(byte);
        state = NUMBER_EXP;
        return;
      default:
        if (!isDigit(byte)) numberEnded(byte);
    }
  }

  function push(bytes: Uint8Array): void {
    const length = bytes.length;
    const base = offset;
    let i = 0;
    while (i < length) {
      if (state === IN_STRING) {
        const from = i;
        let byte = 0;
        while (i < length && (byte = bytes[i] as number) !== 0x22 && byte !== 0x5c && byte >= 0x20) i++;
        if (capturing && i > from) capture(bytes, from, i);
        offset = base + i;
        if (i === length) return;
        i++;
        if (byte === 0x22) stringEnded();
        else if (byte === 0x5c) {
          if (capturing) capture(bytes, i - 1, i);
          state = IN_ESCAPE;
        } else fail(byte);
        continue;
      }
      const byte = bytes[i] as number;
      offset = base + i;
      i++;
      switch (state) {
        case EXPECT_VALUE:
          if (!isSpace(byte)) beginValue(byte);
          break;
        case EXPECT_VALUE_OR_CLOSE:
          if (byte === 0x5d) close(false, byte);
          else if (!isSpace(byte)) beginValue(byte);
          break;
        case EXPECT_KEY:
          if (!isSpace(byte)) beginKey(byte);
          break;
        case EXPECT_KEY_OR_CLOSE:
          if (byte === 0x7d) close(true, byte);
          else if (!isSpace(byte)) beginKey(byte);
          break;
        case EXPECT_COLON:
          if (byte === 0x3a) state = EXPECT_VALUE;
          else if (!isSpace(byte)) fail(byte);
          break;
        case AFTER_VALUE:
          afterValue(byte);
          break;
        case IN_ESCAPE:
          if (capturing) capture(bytes, i - 1, i);
          if (byte === 0x75) {
            unicodeLeft = 4;
            unicode = 0;
            state = IN_UNICODE;
          } else if ('"\\/bfnrt'.includes(String.fromCharCode(byte))) state = IN_STRING;
          else fail(byte);
          break;
        case IN_UNICODE:
          if (!isHex(byte)) fail(byte);
          if (capturing) capture(bytes, i - 1, i);
          unicode = (unicode << 4) | hexValue(byte);
          if (--unicodeLeft === 0) unicodeEnded();
          break;
        case AFTER_HIGH:
        case AFTER_HIGH_ESCAPE:
          if (byte !== (state === AFTER_HIGH ? 0x5c : 0x75))
            throw new SyntaxError(`no low surrogate in string at byte ${offset}`);
          if (capturing) capture(bytes, i - 1, i);
          unicodeLeft = 4;
          unicode = 0;
          state = state === AFTER_HIGH ? AFTER_HIGH_ESCAPE : IN_UNICODE;
          break;
        case IN_LITERAL:
          if (byte !== literal.charCodeAt(literalAt)) fail(byte);
          if (++literalAt === literal.length) valueEnded(offset + 1);
          break;
        case DONE:
          if (!isSpace(byte)) fail(byte);
          break;
        default:
          numberByte(byte);
      }
    }
    offset = base + length;
  }

  function end(): ScannedBody {
    if (
      depth === 0 &&
      (state === NUMBER_ZERO || state === NUMBER_INT || state === NUMBER_FRACTION || state === NUMBER_EXP)
    ) {
      valueEnded(offset);
    }
    if (state !== DONE) throw new SyntaxError(`unexpected end of JSON after ${offset} bytes`);
    return { is_object: rootIsObject, requests, count, unknown_key: rootUnknownKey };
  }

  return { push, end };
}
