import type { Writable } from 'node:stream';

/** A frame is a length of four bytes, big endian, then that many bytes of JSON in UTF-8. Pipes split bytes anywhere. */

const HEADER_BYTES = 4;

/** Writes frames: those of one turn of the event loop leave in one system call. */
export interface FrameWriter {
  /**
   * Writes a frame of `json`. `onLeft` is called when the frame has left this process, or cannot.
   * Returns false if the JSON is longer than the limit.
   */
  write(json: string, onLeft?: () => void): boolean;
  /** Writes the frames so far at once. */
  flush(): void;
}

/** Creates a writer of frames of at most `bytesMax` bytes of JSON. */
export function createFrameWriter(stream: Writable, bytesMax: number): FrameWriter {
  let frames: { readonly json: string; readonly bytes: number }[] = [];
  let listeners: (() => void)[] = [];
  let buffered = 0;

  function flush(): void {
    if (frames.length === 0) return;
    const buffer = Buffer.allocUnsafe(buffered);
    let offset = 0;
    for (const { json, bytes } of frames) {
      offset = buffer.writeUInt32BE(bytes, offset);
      offset += buffer.write(json, offset);
    }
    const left = listeners;
    frames = [];
    listeners = [];
    buffered = 0;
    stream.write(buffer, () => {
      for (const onLeft of left) onLeft();
    });
  }

  return {
    write(json, onLeft) {
      const bytes = Buffer.byteLength(json);
      if (bytes > bytesMax) return false;
      if (frames.length === 0) setImmediate(flush);
      frames.push({ json, bytes });
      buffered += HEADER_BYTES + bytes;
      if (onLeft !== undefined) listeners.push(onLeft);
      return true;
    },
    flush,
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
