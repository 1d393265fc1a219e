import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/**
 * True when a provider batch that was not sent holds a step that must not be: of a batch that no longer runs (paused,
 * being cancelled, ended), or one that has ended already because its request cannot be built.
 */
export async function readUnsendableSteps(db: Database, providerBatchId: string): Promise<boolean> {
  const { rows } = await sql<{ unsendable: boolean }>`
    select exists (select 1 from step where provider_batch_id = ${providerBatchId}::uuid and state <> 'sealed')
        or exists (
      select 1 from batch b
       where b.state <> 'running'
         and b.id in (select r.batch_id from step s join run r on r.id = s.run_id
                       where s.provider_batch_id = ${providerBatchId}::uuid)) as unsendable
  `.execute(db);
  return rows[0]?.unsendable ?? false;
}
