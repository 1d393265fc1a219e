import { BATCH_BYTES_MAX } from '@nightshift/intake';
import type { UploadLimits } from './read-lines.ts';

/** Most requests of an upload. */
export const UPLOAD_REQUESTS_MAX = 1_000_000;

/** Limits of a batch that is uploaded as lines. */
export const BATCH_UPLOAD: UploadLimits = {
  line_bytes: 16 * 1024 * 1024,
  // The first line may be the batch.
  lines: UPLOAD_REQUESTS_MAX + 1,
  bytes: 2 * 1024 * 1024 * 1024,
  idle_ms: 60_000,
};

/** Limits of appended messages, which are stored at once like those of a JSON body. */
export const APPEND_UPLOAD: UploadLimits = { ...BATCH_UPLOAD, lines: 100_000, bytes: BATCH_BYTES_MAX };

/** Limits of imported agents, which are stored at once. */
export const AGENTS_UPLOAD: UploadLimits = { ...BATCH_UPLOAD, lines: 10_000, bytes: 64 * 1024 * 1024 };
