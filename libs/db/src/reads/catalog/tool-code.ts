import type { Database } from '../../connect.ts';

/** Reads the code of an uploaded tool; null when it is not stored. Index: primary key. */
export async function readToolCode(db: Database, projectId: string, sha256: string): Promise<string | null> {
  const row = await db
    .selectFrom('tool_code')
    .select('code')
    .where('project_id', '=', projectId)
    .where('sha256', '=', sha256)
    .executeTakeFirst();
  return row?.code ?? null;
}
