import { BLOCK_CHAR_LIMIT_DEFAULT } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { unnestRows } from '../unnest-rows.ts';
import { createBlocks } from './create-blocks.ts';

/**
 * Creates empty blocks and attaches each to its agent, behind its other blocks. The agents lack blocks of these labels.
 * The caller has locked the agents (`lockAgents`).
 */
export async function createEmptyBlocks(
  trx: Tx,
  projectId: string,
  wanted: readonly { readonly agent_id: string; readonly label: string }[],
): Promise<void> {
  if (wanted.length === 0) return;
  const blocks = wanted.map(({ agent_id, label }) => ({
    ...{
      id: newId(),
      agent_id,
      label,
      value: '',
      description: null,
      char_limit: BLOCK_CHAR_LIMIT_DEFAULT,
      read_only: false,
    },
    ...{ metadata: {}, tags: [], is_template: false, hidden: false },
  }));
  await createBlocks(trx, projectId, blocks);
  await sql`
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select d.agent_id, d.id, d.label, ${projectId}::uuid,
           coalesce((select max(k.position) from agent_block k where k.agent_id = d.agent_id), -1)
             + row_number() over (partition by d.agent_id order by d.place)
      from ${unnestRows(blocks, {
        place: ['int', (_block, index) => index],
        id: ['uuid', (block) => block.id],
        agent_id: ['uuid', (block) => block.agent_id],
        label: ['text', (block) => block.label],
      })}
  `.execute(trx);
}
