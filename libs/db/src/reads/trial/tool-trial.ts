import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** The reply of a trial, as stored. */
export interface ToolTrialReply {
  readonly ok: boolean;
  /** The text that a model would see. */
  readonly result: string;
  readonly duration_ms: number;
  readonly stdout?: string;
  readonly stderr?: string;
  /** The worker could not start the tool. */
  readonly unavailable?: true;
}

/** The state of a trial. */
export interface ToolTrialRow {
  readonly state: 'waiting' | 'running' | 'ended';
  /** Its time is over, and no claim is committed. `endTrialWait` makes sure that none commits later. */
  readonly is_untaken: boolean;
  /** The time of its reply is over. */
  readonly is_lost: boolean;
  readonly reply: ToolTrialReply | null;
}

/** Reads a trial. Throws: `not_found` after it was forgotten. Index: primary key. */
export async function readToolTrial(db: Database, projectId: string, id: string): Promise<ToolTrialRow> {
  const { rows } = await sql<ToolTrialRow>`
    select state, state = 'waiting' and waits_until <= app_now() as is_untaken, coalesce(state = 'running' and replies_until < app_now(), false) as is_lost, reply
      from tool_trial where id = ${id}::uuid and project_id = ${projectId}::uuid
  `.execute(db);
  const [trial] = rows;
  if (trial === undefined) throw new NightshiftError('not_found', 'The trial is forgotten.');
  return trial;
}
