import type { TokenCalibration } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';

/** What a token of each model measures, by the provider's names; a model without answers so far is missing. */
export async function readTokenCalibrations(db: Database): Promise<ReadonlyMap<string, TokenCalibration>> {
  const rows = await db
    .selectFrom('token_calibration')
    .select(['model', 'bytes_per_token', 'samples'])
    .execute();
  return new Map(rows.map(({ model, ...calibration }) => [model, calibration]));
}
