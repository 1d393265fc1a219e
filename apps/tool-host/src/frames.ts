/**
 * Frames: a length of four bytes, big endian, then that many bytes of JSON in UTF-8.
 * A pipe splits bytes anywhere; only complete frames are delivered.
 */

/** Maximum length of a frame, without its header: 64 MiB. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;

const HEADER_BYTES = 4;

/**
 * Encodes a frame of `json`.
 * Throws: RangeError if it exceeds {@link FRAME_BYTES_MAX}.
 */
export function encodeFrame(json: string): Buffer {
  const bytes = Buffer.byteLength(json);
  if (bytes > FRAME_BYTES_MAX) {
    throw new RangeError(`frame of ${bytes} bytes exceeds the cap of ${FRAME_BYTES_MAX} bytes`);
  }
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.write(json, frame.writeUInt32BE(bytes, 0));
  return frame;
}

/**
 * Creates a reader of pieces that calls `onFrame` with the value of each complete frame, in order.
 * Pieces are joined once per frame, so a large frame costs linear time.
 * Throws: a frame is longer than {@link FRAME_BYTES_MAX} or does not parse; the stream must then be closed.
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
      const start = offset;
      offset += wanted;
      if (inHeader) {
        wanted = bytes.readUInt32BE(start);
        if (wanted > FRAME_BYTES_MAX) {
          throw new RangeError(`frame announces ${wanted} bytes, the cap is ${FRAME_BYTES_MAX} bytes`);
        }
      } else {
        wanted = HEADER_BYTES;
        onFrame(JSON.parse(bytes.toString('utf8', start, offset)));
      }
      inHeader = !inHeader;
    }
    bytes = bytes.subarray(offset);
    pieces = bytes.length > 0 ? [bytes] : [];
    buffered = bytes.length;
  };
}
