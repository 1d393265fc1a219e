/** A line of a result file and its line break. */
export interface ResultLine {
  readonly bytes: Buffer;
  readonly terminator: string;
}

/** The early end of a stream of result lines. */
export type CutManner = 'clean' | 'fin' | 'rst' | 'short_content_length' | 'close_delimited' | 'gzip';

/** The plan for sending the results of a batch; faults replace its members. */
export interface ResultPlan {
  readonly path: string;
  readonly totalBytes: number;
  readonly totalLines: number;
  readonly contentType: string | null;
  readonly gzip: boolean;
  /** Edits of the lines, in this order; without edits the file is sent unchanged. */
  readonly edits: readonly ((lines: AsyncIterable<ResultLine>) => AsyncIterable<ResultLine>)[];
  /** Bytes, after all edits, at which the stream stops. */
  readonly stopAfterBytes: number | null;
  /** The end of a stream that an edit or `stopAfterBytes` has stopped; null: it stays open. */
  readonly cut: CutManner | null;
  /** Size of the chunks written; null: any size. */
  readonly chunkBytes: number | null;
  readonly bytesPerSecond: number | null;
  readonly stall: { readonly atBytes: number; readonly ms: number } | null;
}
