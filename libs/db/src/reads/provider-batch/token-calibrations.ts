import type { TokenCalibration } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** What a token of each model measures, by the provider's names; a model without answers so far is missing. */
export async function readTokenCalibrations(db: Database): Promise<ReadonlyMap<string, TokenCalibration>> {
  const { rows } = await sql<TokenCalibration & { model: string }>`
    select model, bytes_per_token, samples from token_calibration
  `.execute(db);
  return new Map(rows.map(({ model, ...calibration }) => [model, calibration]));
}
