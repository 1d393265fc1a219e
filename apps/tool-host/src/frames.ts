/**
 * Frames: a length in four bytes, big endian, then that many bytes of UTF-8 JSON.
 * A pipe hands over bytes in pieces of its own choosing; a frame is complete or it is not there.
 */

/** The longest frame either side accepts, in bytes of JSON: 64 MiB. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;

const HEADER_BYTES = 4;

/** One frame holding `json`. Throws a RangeError when it would exceed {@link FRAME_BYTES_MAX}. */
export function encodeFrame(json: string): Buffer {
  const bytes = Buffer.byteLength(json);
  if (bytes > FRAME_BYTES_MAX) {
    throw new RangeError(`frame of ${bytes} bytes exceeds the cap of ${FRAME_BYTES_MAX} bytes`);
  }
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32BE(bytes, 0);
  frame.write(json, HEADER_BYTES);
  return frame;
}

/**
 * Returns a function to be fed with pieces; `onFrame` is called with each completed frame's parsed JSON, in order.
 * Pieces are joined once per frame, so a large frame costs linear time. Throws when a frame announces more than
 * {@link FRAME_BYTES_MAX} or does not parse: the stream cannot be trusted afterwards and must be closed.
 */
export function createFrameReader(onFrame: (value: unknown) => void): (piece: Buffer) => void {
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
        const json = bytes.toString('utf8', offset, offset + wanted);
        offset += wanted;
        wanted = HEADER_BYTES;
        inHeader = true;
        onFrame(JSON.parse(json));
      }
    }
    bytes = bytes.subarray(offset);
    pieces = bytes.length > 0 ? [bytes] : [];
    buffered = bytes.length;
  };
}
