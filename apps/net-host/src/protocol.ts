import type { NetCall, Reply } from './contract.ts';

/**
 * Messages between the worker's side and the net host.
 * A frame is a length of four bytes, big endian, then that many bytes of JSON in UTF-8.
 */
export type ToHost =
  | { readonly kind: 'call'; readonly id: number; readonly call: NetCall }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'ping' };

export type FromHost =
  | { readonly kind: 'ready' }
  /** The call is about to run. The frame is on the pipe before it does. */
  | { readonly kind: 'starting'; readonly id: number }
  | { readonly kind: 'reply'; readonly id: number; readonly reply: Reply }
  | { readonly kind: 'pong' };

/** Descriptors of the child for frames. 0 is the lifeline, 1 and 2 are log text. */
export const TO_HOST_FD = 3;
export const FROM_HOST_FD = 4;

/** Maximum length of a frame, without its header. */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024;
const HEADER_BYTES = 4;

/**
 * Encodes a message.
 * Throws: RangeError if it exceeds {@link FRAME_BYTES_MAX}.
 */
export function encodeFrame(message: ToHost | FromHost): Buffer {
  const text = JSON.stringify(message);
  const bytes = Buffer.byteLength(text);
  if (bytes > FRAME_BYTES_MAX) throw new RangeError(`${bytes} bytes exceed the limit of ${FRAME_BYTES_MAX}`);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32BE(bytes, 0);
  frame.write(text, HEADER_BYTES);
  return frame;
}

/**
 * Makes a reader of pieces that calls `onMessage` for each complete frame, in order.
 * Pieces are joined once per frame, so a large frame costs linear time.
 * Throws: a frame is too long or does not parse; the stream must then be closed.
 */
export function createFrameReader<Message>(onMessage: (message: Message) => void): (piece: Buffer) => void {
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
      if (length > FRAME_BYTES_MAX) throw new RangeError(`a frame of ${length} bytes exceeds the limit`);
      wanted += length;
      if (bytes.length < wanted) break;
      const message = JSON.parse(bytes.toString('utf8', HEADER_BYTES, wanted)) as Message;
      bytes = bytes.subarray(wanted);
      onMessage(message);
    }
    pieces = [bytes];
    buffered = bytes.length;
  };
}
