import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/** A run that awaits an answer, as far as a call that the answer makes has to know it. */
export interface InFlightRun {
  readonly id: string;
  readonly agent_id: string;
  readonly definition_id: string;
  readonly step_number: number;
  readonly attempt: number;
}

/**
 * Those of the given runs that are `in_flight`, with no summary asked for, in a batch that nobody cancels. Nothing is locked: what is read may have
 * changed by the time it is used. Served by primary keys.
 */
export async function readInFlightRuns(
  db: Database,
  runIds: readonly string[],
): Promise<readonly InFlightRun[]> {
  const { rows } = await sql<InFlightRun>`
    select r.id, r.agent_id, r.definition_id, r.step_number, r.attempt
      from run r join batch b on b.id = r.batch_id
     where r.id = any(${runIds}::uuid[]) and r.state = 'in_flight' and r.summarises_to_seq is null
       and b.state not in ('cancelling', 'cancelled')
  `.execute(db);
  return rows;
}
