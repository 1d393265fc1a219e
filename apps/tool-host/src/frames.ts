/**
 * Frames: a length in four bytes, big endian, then that many bytes of UTF-8: JSON, and after it, behind a line feed,
 * an attachment if there is one: text that the reader hands on unread. JSON text never holds a line feed of its own.
 * A pipe hands over bytes in pieces of its own choosing; a frame is complete or it is not there.
 */

/** The longest frame either side accepts, in bytes after the header: 64 MiB. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;

const HEADER_BYTES = 4;
const LINE_FEED = 0x0a;

/** One frame holding `text`: JSON, perhaps with an attachment. Throws a RangeError when it would exceed {@link FRAME_BYTES_MAX}. */
export function encodeFrame(text: string): Buffer {
  return encodeFrameOf([text]);
}

/** As {@link encodeFrame}, of a text in parts: thousands of calls that are joined first are copied once more. */
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
 * Returns a function to be fed with pieces; `onFrame` is called with each completed frame's parsed JSON
 * and its attachment, in order.
 * Pieces are joined once per frame, so a large frame costs linear time. Throws when a frame announces more than
 * {@link FRAME_BYTES_MAX} or does not parse: the stream cannot be trusted afterwards and must be closed.
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
