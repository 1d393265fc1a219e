import type { ClockOffset } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** The last measured offset of a provider's clock from the database's. */
export interface MeasuredClock extends ClockOffset {
  readonly name: string;
  readonly measured_at: Date;
  readonly age_ms: number;
}

/** Reads the measured clocks by credential. A credential whose provider sends no time is left out. */
export async function readProviderClocks(db: Database): Promise<readonly MeasuredClock[]> {
  const { rows } = await sql<MeasuredClock>`
    select name, clock_offset_ms as offset_ms, clock_uncertainty_ms as uncertainty_ms, clock_measured_at as measured_at,
           greatest(0, extract(epoch from app_now() - clock_measured_at) * 1000)::float8 as age_ms
      from credential where clock_measured_at is not null order by name
  `.execute(db);
  return rows;
}
