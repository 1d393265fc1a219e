import type { Database } from '../../connect.ts';
import { anyText } from '../../fragments.ts';

/** Reads which of the labels a block of the project has. Index: `block_by_label`. */
export async function readBlockLabels(
  db: Database,
  projectId: string,
  labels: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('block')
    .select('label')
    .distinct()
    .where('project_id', '=', projectId)
    .where('label', '=', anyText(labels))
    .where('deleted_at', 'is', null)
    .execute();
  return new Set(rows.map((row) => row.label));
}
