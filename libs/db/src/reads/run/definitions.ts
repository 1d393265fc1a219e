import type { Definition } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';

const columns = [
  ...(['id', 'agent_type', 'system', 'model', 'model_settings', 'tool_rules', 'tools'] as const),
  ...([
    'result_format',
    'strict',
    'context_window_limit',
    'compaction',
    'writable_labels',
    'server_tools',
  ] as const),
] as const;

/** Reads definitions by id. They never change, so callers may cache them. */
export async function readDefinitions(db: Database, ids: readonly string[]): Promise<readonly Definition[]> {
  if (ids.length === 0) return [];
  return db.selectFrom('definition').select(columns).where('id', '=', anyUuid(ids)).execute();
}
