import type { ClockOffset } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Milliseconds after which an offset is written again although it has not moved, and by which it has moved. */
const OLD_MS = 600_000;
const MOVED_MS = 5_000;

/** Keeps how far the provider's clock is from the database's, where what is kept is old or differs. True if it was written. */
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
