import { sql, type Kysely } from 'kysely';

/** Submissions keep their send time by the provider's clock, and credentials how far that clock is from the database's. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- The provider's time of the last write-ahead; null where it was not measured.
alter table provider_batch add column provider_sent_at timestamptz;
alter table doubted_submission add column provider_sent_at timestamptz;
-- 'proven': adopted, and a line or the provider's answer has shown that it is ours.
alter table doubted_submission drop constraint doubted_submission_outcome_check;
alter table doubted_submission add constraint doubted_submission_outcome_check
  check (outcome in ('adopted', 'withdrawn', 'proven'));
-- The provider's clock minus the database's.
alter table credential add column clock_offset_ms bigint;
alter table credential add column clock_uncertainty_ms bigint;
alter table credential add column clock_measured_at timestamptz;
`,
    )
    .execute(db);
}
