import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** Makes changes of one agent follow each other, until the transaction ends. Throws `not_found`. Index: primary key. */
export async function lockAgent(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const { rows } = await sql`
    select 1 from agent where id = ${agentId} and project_id = ${projectId} and deleted_at is null for no key update
  `.execute(trx);
  if (rows.length === 0) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
}

/**
 * Makes changes of agents follow each other: locks those of these ids, in id order (after runs that wait or act, before
 * blocks), until the transaction ends. Index: primary key.
 */
export async function lockAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  await sql`
    select 1 from agent where id = any(${[...agentIds]}::uuid[]) order by id for no key update
  `.execute(trx);
}
