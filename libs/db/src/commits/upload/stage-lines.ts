import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { from as copyFrom } from 'pg-copy-streams';
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

const COPY = 'copy staged_line (batch_id, project_id, ordinal, bytes, custom_id, run) from stdin';

/** Encodes lines for {@link stageLines}, as COPY's text format; the first has the ordinal `from`. */
export function encodeLines(
  { batch_id, project_id }: UploadKey,
  from: number,
  lines: readonly StagedLine[],
): Buffer {
  const rows = lines.map(({ custom_id, run }, index) => {
    const id = custom_id === null ? '\\N' : escape(custom_id);
    return `${batch_id}\t${project_id}\t${from + index}\t${Buffer.byteLength(run)}\t${id}\t${escape(run)}\n`;
  });
  return Buffer.from(rows.join(''));
}

const ESCAPED: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

function escape(text: string): string {
  return text.replace(/[\\\t\n\r]/g, (character) => ESCAPED[character] ?? character);
}

/**
 * Stages encoded lines with one COPY, which is a transaction of its own.
 * Throws: 23505 for an ordinal that is staged already.
 */
export async function stageLines(db: Database, encoded: readonly Buffer[]): Promise<void> {
  const client = await poolOf(db).connect();
  try {
    await pipeline(Readable.from(encoded), client.query(copyFrom(COPY)));
  } finally {
    client.release();
  }
}
