import type { Submittable } from 'pg';
import { poolOf, type Database } from '../../connect.ts';

/** A validated line of an upload. */
export interface StagedLine {
  readonly custom_id: string | null;
  /** The run as JSON, without its custom id. */
  readonly run: string;
}

/** Lines in the binary format of COPY. */
export interface EncodedLines {
  readonly bytes: Buffer;
  readonly count: number;
}

const COPY = 'copy staged_line (batch_id, ordinal, bytes, custom_id, run) from stdin (format binary)';
/** Signature, flags and length of the header's extension. */
const HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Bytes of a row beside its texts: the number of fields, and the lengths and values of batch, ordinal and size. */
const ROW_BYTES = 2 + 20 + 8 + 8 + 4 + 4;

/** Encodes lines for {@link stageLines}; the first has the ordinal `from`. */
export function encodeLines(batchId: string, from: number, lines: readonly StagedLine[]): EncodedLines {
  const id = Buffer.from(batchId.replaceAll('-', ''), 'hex');
  const size = lines.reduce(
    (sum, { custom_id, run }) => sum + ROW_BYTES + 3 * ((custom_id?.length ?? 0) + run.length),
    HEADER.length + 2,
  );
  // UTF-8 takes at most three bytes for a unit of UTF-16, and mostly one.
  const bytes = Buffer.allocUnsafe(size);
  let at = HEADER.copy(bytes);
  for (const [place, { custom_id, run }] of lines.entries()) {
    at = bytes.writeInt16BE(5, at);
    at = bytes.writeInt32BE(16, at);
    at += id.copy(bytes, at);
    at = bytes.writeInt32BE(4, at);
    at = bytes.writeInt32BE(from + place, at);
    at = bytes.writeInt32BE(4, at);
    const sizeAt = at;
    at += 4;
    if (custom_id === null) at = bytes.writeInt32BE(-1, at);
    else {
      const length = bytes.write(custom_id, at + 4);
      at = bytes.writeInt32BE(length, at) + length;
    }
    const length = bytes.write(run, at + 4);
    bytes.writeInt32BE(length, sizeAt);
    at = bytes.writeInt32BE(length, at) + length;
  }
  at = bytes.writeInt16BE(-1, at);
  return { bytes: bytes.subarray(0, at), count: lines.length };
}

/** The part of the driver's connection that COPY needs; its types omit it. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * Stages lines with one COPY, which is a transaction of its own.
 * Throws: 23505 for an ordinal that is staged already.
 */
export async function stageLines(db: Database, { bytes }: EncodedLines): Promise<void> {
  const client = await poolOf(db).connect();
  try {
    await new Promise<void>((resolve, reject) => {
      const copy = {
        submit: (connection: unknown) => (connection as CopyConnection).query(COPY),
        handleCopyInResponse: (connection: CopyConnection) => {
          connection.sendCopyFromChunk(bytes);
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
