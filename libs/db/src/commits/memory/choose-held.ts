import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { EVERY_CHANGE, HELD_ROWS, isChosen, isNamed } from '../../reads/memory/held-conditions.ts';
import type { HeldFilter, HeldSelection } from './held-row.ts';

/** The held changes to settle, and whose passages go with them. */
export interface ChosenChanges {
  readonly filter: HeldFilter | { readonly draft_ids: readonly string[] };
  /** Null: no passages, because the selection is by changes and not by agents. */
  readonly passages: PassagesOf | null;
}

/** The agents whose passages are settled; `agent_ids` null: all of the batch. */
export interface PassagesOf {
  readonly agent_ids: readonly string[] | null;
  readonly except_agent_ids: readonly string[];
}

/**
 * Chooses the held changes of a selection, as they are now. The caller has locked the batch, so that none is settled or
 * edited meanwhile; its blocks may still change.
 * Index: `held_change_by_draft`, primary keys. Choices read the changes of the batch one by one.
 */
export async function chooseHeld(
  trx: Tx,
  batchId: string,
  { agent_ids, block_ids, choice = null, change_ids = null, except_ids = null }: HeldSelection,
): Promise<ChosenChanges> {
  const isByAgent = block_ids === null && choice === null && change_ids === null;
  if (choice === null && change_ids === null && except_ids === null)
    return {
      filter: { agent_ids, block_ids },
      passages: isByAgent ? { agent_ids, except_agent_ids: [] } : null,
    };
  const names = { agent_ids, block_ids, change_ids, except_ids };
  const { rows } = await sql<{ draft_id: string }>`
    select h.draft_id from ${choice === null ? sql`held_change h` : HELD_ROWS}
     where h.batch_id = ${batchId} and h.state = 'held' and ${isNamed(names)} and ${isChosen(choice ?? EVERY_CHANGE)}
  `.execute(trx);
  const filter = { draft_ids: rows.map(({ draft_id }) => draft_id) };
  if (!isByAgent) return { filter, passages: null };
  return {
    filter,
    passages: { agent_ids, except_agent_ids: await readAgentsOf(trx, batchId, except_ids ?? []) },
  };
}

async function readAgentsOf(
  trx: Tx,
  batchId: string,
  draftIds: readonly string[],
): Promise<readonly string[]> {
  const names = { agent_ids: null, block_ids: null, change_ids: draftIds, except_ids: null };
  const { rows } = await sql<{ agent_id: string }>`
    select distinct h.agent_id from held_change h where h.batch_id = ${batchId} and ${isNamed(names)}
  `.execute(trx);
  return rows.map(({ agent_id }) => agent_id);
}
