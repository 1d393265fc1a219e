import { NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { anyText } from '../../fragments.ts';

/** Deletes a secret of a project. Throws: `not_found`. Index: `secret_place`. */
export async function deleteSecret(trx: Tx, projectId: string, name: string): Promise<void> {
  const { numDeletedRows } = await trx
    .deleteFrom('secret')
    .where('project_id', '=', projectId)
    .where('agent_id', 'is', null)
    .where('name', '=', name)
    .executeTakeFirst();
  if (numDeletedRows === 0n) throw new NightshiftError('not_found', `There is no secret ${name}.`);
}

/** Deletes the secrets of an agent, except those with the names `kept`. Index: `secret_place`. */
export async function deleteAgentSecrets(
  trx: Tx,
  projectId: string,
  agentId: string,
  kept: readonly string[] = [],
): Promise<void> {
  await trx
    .deleteFrom('secret')
    .where('project_id', '=', projectId)
    .where('agent_id', '=', agentId)
    .where((eb) => eb.not(eb('name', '=', anyText(kept))))
    .execute();
}
