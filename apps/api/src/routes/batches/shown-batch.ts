import { readBatchWithProgress } from '@nightshift/db';
import type { Context } from '../../context.ts';
import type { BatchResponse } from '../../schemas/batch.ts';
import { toBatchResponse } from '../../wire/to-batch.ts';
import { toProgressResponse } from '../../wire/to-progress.ts';

/** A batch with its progress, as answered, and its version. */
export interface ShownBatch {
  readonly batch: BatchResponse;
  readonly version: number;
}

/** Reads a batch with its progress. Throws: `not_found`. */
export async function readShownBatch({ db, projectId }: Context, batchId: string): Promise<ShownBatch> {
  const { batch, progress } = await readBatchWithProgress(db, projectId, batchId);
  return {
    batch: { ...toBatchResponse(batch), progress: toProgressResponse(progress) },
    version: progress.version,
  };
}
