import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A tool with a limit over all workers. */
export interface LimitedTool {
  readonly id: string;
  readonly name: string;
}

/** Reads the tools with limits. Index: `tool_limited`. */
export async function readLimitedTools(db: Database, projectId: string): Promise<readonly LimitedTool[]> {
  return db
    .selectFrom('tool')
    .select(['id', 'name'])
    .where('project_id', '=', projectId)
    .where(sql<boolean>`(concurrency is not null or rate_per_minute is not null)`)
    .execute();
}
