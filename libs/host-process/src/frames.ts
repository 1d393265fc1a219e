import type { Writable } from 'node:stream';

/** A frame is a length of four bytes, big endian, then that many bytes of JSON in UTF-8. Pipes split bytes anywhere. */

const HEADER_BYTES = 4;

/** Encodes a frame of `json`; undefined if that has more than `bytesMax` bytes. */
export function encodeFrame(json: string, bytesMax: number): Buffer | undefined {
  const bytes = Buffer.byteLength(json);
  if (bytes > bytesMax) return undefined;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.write(json, frame.writeUInt32BE(bytes, 0));
  return frame;
}

/**
 * Creates a writer of frames. The frames of one turn leave in one system call; `onLeft` is called when the frame has left
 * this process, or cannot. Returns false if the JSON exceeds `bytesMax`.
 */
export function createFrameWriter(
  stream: Writable,
  bytesMax: number,
): (json: string, onLeft?: () => void) => boolean {
  let isCorked = false;
  return (json, onLeft) => {
    const frame = encodeFrame(json, bytesMax);
    if (frame === undefined) return false;
    if (!isCorked) {
      isCorked = true;
      stream.cork();
      process.nextTick(() => {
        isCorked = false;
        stream.uncork();
      });
    }
    stream.write(frame, () => onLeft?.());
    return true;
  };
}

/**
 * Creates a reader of pieces that calls `onMessage` with the value of each complete frame, in order. Pieces are joined once
 * per frame, so a large frame costs linear time.
 * Throws: a frame is longer than `bytesMax` or does not parse; the stream must then be closed.
 */
export function createFrameReader(
  bytesMax: number,
  onMessage: (message: unknown) => void,
): (piece: Buffer) => void {
  let pieces: Buffer[] = [];
  let buffered = 0;
  let wanted = HEADER_BYTES;
  return (piece) => {
    pieces.push(piece);
    buffered += piece.length;
    if (buffered < wanted) return;
    let bytes = pieces.length === 1 ? piece : Buffer.concat(pieces, buffered);
    for (;;) {
      wanted = HEADER_BYTES;
      if (bytes.length < wanted) break;
      const length = bytes.readUInt32BE(0);
      if (length > bytesMax)
        throw new RangeError(`a frame of ${length} bytes exceeds the limit of ${bytesMax}`);
      wanted += length;
      if (bytes.length < wanted) break;
      const message: unknown = JSON.parse(bytes.toString('utf8', HEADER_BYTES, wanted));
      bytes = bytes.subarray(wanted);
      onMessage(message);
    }
    pieces = [bytes];
    buffered = bytes.length;
  };
}
