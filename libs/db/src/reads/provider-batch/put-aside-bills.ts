import type { DecodedBill } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/**
 * Reads the costs in a provider batch's quarantined lines, by custom id; of several lines of an id the first counts. Index:
 * primary key of result_line.
 */
export async function readPutAsideBills(
  db: Database,
  providerBatchId: string,
): Promise<ReadonlyMap<string, DecodedBill>> {
  const { rows } = await sql<{ custom_id: string; bill: DecodedBill }>`
    select distinct on (custom_id) custom_id, bill from result_line
     where provider_batch_id = ${providerBatchId}::uuid and custom_id is not null and bill is not null
       and reason in ('unreadable', 'unusable', 'too_long')
     order by custom_id, line_number
  `.execute(db);
  return new Map(rows.map(({ custom_id, bill }) => [custom_id, bill]));
}
