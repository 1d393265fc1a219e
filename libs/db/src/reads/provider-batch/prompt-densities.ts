import type { PromptDensity } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';

/** Reads the prompt densities of definitions; a definition without samples is left out. Index: primary key. */
export async function readPromptDensities(
  db: Database,
  definitionIds: readonly string[],
): Promise<ReadonlyMap<string, PromptDensity>> {
  if (definitionIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('prompt_density')
    .select(['definition_id', 'samples', 'bytes_per_token_min'])
    .where('definition_id', '=', anyUuid(definitionIds))
    .execute();
  return new Map(rows.map(({ definition_id, ...density }) => [definition_id, density]));
}
