import type { Writable } from 'node:stream';

/** A frame is a length of four bytes, big endian, then that many bytes of JSON in UTF-8. Pipes split bytes anywhere. */

const HEADER_BYTES = 4;

/** Writes frames. `onLeft` is called when the frame has left this process, or cannot. */
export interface FrameWriter {
  /** Writes a frame of `json`; the frames of one turn leave together. Returns false if the JSON is longer than the limit. */
  write(json: string, onLeft?: () => void): boolean;
  /** Writes a frame before those of this turn: the process may be killed in it. */
  writeNow(json: string, onLeft: () => void): void;
}

/** Creates a writer of frames of at most `bytesMax` bytes of JSON. */
export function createFrameWriter(stream: Writable, bytesMax: number): FrameWriter {
  let frames: Frame[] = [];
  let listeners: (() => void)[] = [];

  function flush(): void {
    const left = listeners;
    stream.write(encodeFrames(frames), () => {
      for (const onLeft of left) onLeft();
    });
    frames = [];
    listeners = [];
  }

  return {
    write(json, onLeft) {
      const bytes = Buffer.byteLength(json);
      if (bytes > bytesMax) return false;
      if (frames.push({ json, bytes }) === 1) setImmediate(flush);
      if (onLeft !== undefined) listeners.push(onLeft);
      return true;
    },
    writeNow(json, onLeft) {
      stream.write(encodeFrames([{ json, bytes: Buffer.byteLength(json) }]), onLeft);
    },
  };
}

interface Frame {
  readonly json: string;
  readonly bytes: number;
}

function encodeFrames(frames: readonly Frame[]): Buffer {
  const buffer = Buffer.allocUnsafe(frames.reduce((sum, { bytes }) => sum + HEADER_BYTES + bytes, 0));
  let offset = 0;
  for (const { json, bytes } of frames) {
    offset = buffer.writeUInt32BE(bytes, offset);
    offset += buffer.write(json, offset);
  }
  return buffer;
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
