import type { Database } from '../../connect.ts';
import { NOW } from '../../fragments.ts';

/** A submission that was in doubt and is still watched. */
export interface WatchedSubmission {
  readonly nonce: string;
  readonly project_id: string;
  readonly provider_batch_id: string;
  readonly credential: string;
  readonly request_count: number;
  /** Time of the send, by the provider's clock if measured, else by the database's. */
  readonly sent_at: Date;
}

/** Reads the watched submissions, oldest first. Index: `doubted_submission_watched`. */
export async function readWatchedSubmissions(db: Database): Promise<readonly WatchedSubmission[]> {
  return db
    .selectFrom('doubted_submission as d')
    .innerJoin('provider_batch as p', 'p.id', 'd.provider_batch_id')
    .select(['d.nonce', 'd.project_id', 'd.provider_batch_id', 'p.credential', 'd.request_count'])
    .select(({ fn }) => fn.coalesce('d.provider_sent_at', 'd.submit_started_at').as('sent_at'))
    .where('d.watched_until', '>', NOW)
    .orderBy('d.submit_started_at')
    .execute();
}
