/**
 * Frames: a length of four bytes, big endian, then that many bytes of UTF-8.
 * The text is JSON, optionally followed by a line feed and an attachment that the reader forwards unread. JSON text never
 * contains a line feed. A pipe splits bytes anywhere; only complete frames are delivered.
 */

/** Maximum length of a frame, without its header: 64 MiB. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;

const HEADER_BYTES = 4;
const LINE_FEED = 0x0a;

/**
 * Encodes a frame of `text`: JSON, optionally with an attachment.
 * Throws: RangeError if it exceeds {@link FRAME_BYTES_MAX}.
 */
export function encodeFrame(text: string): Buffer {
  return encodeFrameOf([text]);
}

/** Encodes a frame like {@link encodeFrame}, from parts: joining thousands of calls first would copy them once more. */
export function encodeFrameOf(parts: readonly string[]): Buffer {
  let bytes = 0;
  for (const part of parts) bytes += Buffer.byteLength(part);
  if (bytes > FRAME_BYTES_MAX) {
    throw new RangeError(`frame of ${bytes} bytes exceeds the cap of ${FRAME_BYTES_MAX} bytes`);
  }
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  let at = frame.writeUInt32BE(bytes, 0);
  for (const part of parts) at += frame.write(part, at);
  return frame;
}

/**
 * Creates a reader of pieces that calls `onFrame` with the JSON and attachment of each complete frame, in order.
 * Pieces are joined once per frame, so a large frame costs linear time.
 * Throws: a frame is longer than {@link FRAME_BYTES_MAX} or does not parse; the stream must then be closed.
 */
export function createFrameReader(
  onFrame: (value: unknown, attachment: Buffer) => void,
): (piece: Buffer) => void {
  let pieces: Buffer[] = [];
  let buffered = 0;
  let wanted = HEADER_BYTES;
  let inHeader = true;

  return (piece) => {
    pieces.push(piece);
    buffered += piece.length;
    if (buffered < wanted) return;
    let bytes = pieces.length === 1 ? piece : Buffer.concat(pieces, buffered);
    let offset = 0;
    while (bytes.length - offset >= wanted) {
      if (inHeader) {
        const announced = bytes.readUInt32BE(offset);
        if (announced > FRAME_BYTES_MAX) {
          throw new RangeError(`frame announces ${announced} bytes, the cap is ${FRAME_BYTES_MAX} bytes`);
        }
        offset += HEADER_BYTES;
        wanted = announced;
        inHeader = false;
      } else {
        const frame = bytes.subarray(offset, offset + wanted);
        const lineFeed = frame.indexOf(LINE_FEED);
        const jsonBytes = lineFeed === -1 ? wanted : lineFeed;
        offset += wanted;
        wanted = HEADER_BYTES;
        inHeader = true;
        onFrame(JSON.parse(frame.toString('utf8', 0, jsonBytes)), frame.subarray(jsonBytes + 1));
      }
    }
    bytes = bytes.subarray(offset);
    pieces = bytes.length > 0 ? [bytes] : [];
    buffered = bytes.length;
  };
}
