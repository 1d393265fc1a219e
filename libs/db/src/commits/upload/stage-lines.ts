import type { Submittable } from 'pg';
import { poolOf, type Database } from '../../connect.ts';

/** An upload: the id of its batch, and its project. */
export interface UploadKey {
  readonly batch_id: string;
  readonly project_id: string;
}

/** A validated line of an upload. */
export interface StagedLine {
  readonly custom_id: string | null;
  /** The run as JSON, without its custom id. */
  readonly run: string;
}

const COPY =
  'copy staged_line (batch_id, project_id, ordinal, bytes, custom_id, run) from stdin (format binary)';
/** Bytes of a message of the protocol. */
const MESSAGE_BYTES = 65_536;
/** The binary format of COPY: signature, flags and length of the header's extension. */
const HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const TRAILER = Buffer.of(0xff, 0xff);
/** Begin of a row: the number of fields, the lengths and values of batch and project, and the length of the ordinal. */
const BEGIN_BYTES = 2 + 20 + 20 + 4;
/** Bytes of a row beside its texts: its begin, the ordinal, the size, and the lengths of the texts. */
const ROW_BYTES = BEGIN_BYTES + 4 + 8 + 4 + 4;

/** Encodes lines for {@link stageLines}; the first has the ordinal `from`. */
export function encodeLines(
  { batch_id, project_id }: UploadKey,
  from: number,
  lines: readonly StagedLine[],
): Buffer {
  const ids = [batch_id, project_id].map((id) => `00000010${id.replaceAll('-', '')}`);
  const begin = Buffer.from(`0006${ids.join('')}00000004`, 'hex');
  let size = 0;
  for (const { custom_id, run } of lines)
    size += ROW_BYTES + Buffer.byteLength(custom_id ?? '') + Buffer.byteLength(run);
  const bytes = Buffer.allocUnsafeSlow(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  let ordinal = from;
  for (const { custom_id, run } of lines) {
    bytes.set(begin, at);
    at += BEGIN_BYTES;
    view.setInt32(at, ordinal++);
    view.setInt32(at + 4, 4);
    const sizeAt = at + 8;
    at += 12;
    const idBytes = custom_id === null ? -1 : bytes.write(custom_id, at + 4);
    view.setInt32(at, idBytes);
    at += 4 + Math.max(0, idBytes);
    const runBytes = bytes.write(run, at + 4);
    view.setInt32(at, runBytes);
    view.setInt32(sizeAt, runBytes);
    at += 4 + runBytes;
  }
  return bytes;
}

/** The part of the driver's connection that COPY needs; its types omit it. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * Stages encoded lines with one COPY, which is a transaction of its own.
 * Throws: 23505 for an ordinal that is staged already.
 */
export async function stageLines(db: Database, encoded: readonly Buffer[]): Promise<void> {
  const client = await poolOf(db).connect();
  try {
    await new Promise<void>((resolve, reject) => {
      const copy = {
        submit: (connection: unknown) => (connection as CopyConnection).query(COPY),
        handleCopyInResponse: (connection: CopyConnection) => {
          for (const bytes of [HEADER, ...encoded, TRAILER])
            for (let from = 0; from < bytes.length; from += MESSAGE_BYTES)
              connection.sendCopyFromChunk(bytes.subarray(from, from + MESSAGE_BYTES));
          connection.endCopyFrom();
        },
        handleCommandComplete: () => undefined,
        handleReadyForQuery: () => resolve(),
        handleError: reject,
      };
      client.query(copy satisfies Submittable);
    });
  } finally {
    client.release();
  }
}
