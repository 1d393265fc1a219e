import type { Database } from '../../connect.ts';

/** Opens an upload, so that its staged lines have an owner. A single statement. */
export async function openUpload(db: Database, projectId: string, batchId: string): Promise<void> {
  await db.insertInto('upload').values({ batch_id: batchId, project_id: projectId }).execute();
}
