import type { SandboxCall, SandboxOutcome } from './contract.ts';

/**
 * Messages between the worker's side and the host process. A frame is a length of four bytes, big endian, then that many
 * bytes of JSON.
 */

/** Maximum length of a frame, without its header: 1 MiB. */
export const FRAME_BYTES_MAX = 1024 * 1024;
const HEADER_BYTES = 4;

export type ToHost =
  /** `arguments` is JSON text, which only the sandbox parses. */
  | { readonly kind: 'call'; readonly id: number; readonly call: SandboxCall; readonly arguments: string }
  | { readonly kind: 'cancel'; readonly id: number }
  /** `answer` is the JSON text of a {@link FetchAnswer}. */
  | { readonly kind: 'fetched'; readonly id: number; readonly fetch: number; readonly answer: string }
  | { readonly kind: 'ping' };

export type FromHost =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'ended';
      readonly id: number;
      readonly outcome: SandboxOutcome;
      /** The engine or its thread failed, so the process should be replaced. */
      readonly isBroken: boolean;
    }
  /** `request` is JSON text of the sandboxed code. */
  | { readonly kind: 'fetch'; readonly id: number; readonly fetch: number; readonly request: string }
  | { readonly kind: 'pong' };

/** Returns the frame of a message, or undefined if it exceeds {@link FRAME_BYTES_MAX}. */
export function encodeFrame(message: ToHost | FromHost): Buffer | undefined {
  const text = JSON.stringify(message);
  const bytes = Buffer.byteLength(text);
  if (bytes > FRAME_BYTES_MAX) return undefined;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32BE(bytes, 0);
  frame.write(text, HEADER_BYTES);
  return frame;
}

/**
 * Creates a reader of pieces that calls `onMessage` with the message of each complete frame, in order.
 * Throws: a frame is longer than {@link FRAME_BYTES_MAX} or does not parse; the stream must then be closed.
 */
export function createFrameReader(onMessage: (message: unknown) => void): (piece: Buffer) => void {
  let pieces: Buffer[] = [];
  let buffered = 0;
  let wanted = HEADER_BYTES;
  return (piece) => {
    pieces.push(piece);
    buffered += piece.length;
    if (buffered < wanted) return;
    let bytes = Buffer.concat(pieces, buffered);
    while (bytes.length >= HEADER_BYTES) {
      const length = bytes.readUInt32BE(0);
      if (length > FRAME_BYTES_MAX) throw new RangeError(`a frame announces ${length} bytes`);
      wanted = HEADER_BYTES + length;
      if (bytes.length < wanted) break;
      onMessage(JSON.parse(bytes.toString('utf8', HEADER_BYTES, wanted)));
      bytes = bytes.subarray(wanted);
      wanted = HEADER_BYTES;
    }
    pieces = [bytes];
    buffered = bytes.length;
  };
}
