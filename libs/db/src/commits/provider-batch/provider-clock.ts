import type { ClockOffset } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Age, and change, at which an offset is written again. Unit: ms. */
const OLD_MS = 600_000;
const MOVED_MS = 5_000;

/** Stores the offset of the provider's clock from the database's if the stored offset is old or differs; true if so. */
export async function commitClockOffset(db: Database, name: string, offset: ClockOffset): Promise<boolean> {
  const { offset_ms, uncertainty_ms } = offset;
  const { rows } = await sql`
    update credential
       set clock_offset_ms = ${offset_ms}, clock_uncertainty_ms = ${uncertainty_ms}, clock_measured_at = app_now()
     where name = ${name}
       and (clock_measured_at is null or abs(extract(epoch from app_now() - clock_measured_at)) * 1000 > ${OLD_MS}
            or abs(clock_offset_ms - ${offset_ms}) > ${MOVED_MS} + greatest(clock_uncertainty_ms, ${uncertainty_ms}))
    returning 1
  `.execute(db);
  return rows.length > 0;
}
