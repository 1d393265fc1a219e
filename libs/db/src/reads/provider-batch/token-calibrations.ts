import type { TokenCalibration } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';

/** Reads the bytes per token of each model, by the provider's name; a model without answers is left out. */
export async function readTokenCalibrations(db: Database): Promise<ReadonlyMap<string, TokenCalibration>> {
  const rows = await db
    .selectFrom('token_calibration')
    .select(['model', 'bytes_per_token', 'samples'])
    .execute();
  return new Map(rows.map(({ model, ...calibration }) => [model, calibration]));
}
