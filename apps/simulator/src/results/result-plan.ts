/** A line of a result file without its line break, and the line break. */
export interface ResultLine {
  readonly bytes: Buffer;
  readonly terminator: string;
}

/** How a stream of result lines ends early. */
export type CutManner = 'clean' | 'fin' | 'rst' | 'short_content_length' | 'close_delimited' | 'gzip';

/** How the results of a batch are to be sent; faults replace its members. */
export interface ResultPlan {
  readonly path: string;
  readonly totalBytes: number;
  readonly totalLines: number;
  readonly contentType: string | null;
  readonly gzip: boolean;
  /** Each changes the lines, in this order; none: the file is sent as it is. */
  readonly edits: readonly ((lines: AsyncIterable<ResultLine>) => AsyncIterable<ResultLine>)[];
  /** Bytes to stop after, counted behind all edits. */
  readonly stopAfterBytes: number | null;
  /** How it ends when an edit or `stopAfterBytes` stopped it early; null: it never does. */
  readonly cut: CutManner | null;
  /** The size of the pieces written; null: whatever is convenient. */
  readonly chunkBytes: number | null;
  readonly bytesPerSecond: number | null;
  readonly stall: { readonly atBytes: number; readonly ms: number } | null;
}
