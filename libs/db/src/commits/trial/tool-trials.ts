import type { JsonObject, ToolDefinition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database, Tx } from '../../connect.ts';
import { isOldTrial } from '../../reads/due-conditions.ts';
import type { ToolTrialReply } from '../../reads/trial/tool-trial.ts';
import { storableJson, storableText } from '../json-rows.ts';

/** A trial of a tool by a caller. */
export interface NewToolTrial {
  readonly id: string;
  readonly project_id: string;
  readonly agent_id: string;
  readonly tool: ToolDefinition;
  readonly arguments: JsonObject;
}

/** Stores a trial that a worker may take within `waitMs`. */
export async function storeToolTrial(trx: Tx, trial: NewToolTrial, waitMs: number): Promise<void> {
  await sql`
    insert into tool_trial (id, project_id, agent_id, tool, arguments, waits_until)
    values (${trial.id}::uuid, ${trial.project_id}::uuid, ${trial.agent_id}::uuid, ${storableJson(trial.tool)}::json,
      ${storableJson(trial.arguments)}::json, app_now() + ${waitMs}::float8 * interval '1 millisecond')
  `.execute(trx);
}

/**
 * Lets a worker take a trial within `waitMs`, if it waits or its call could not be started; 0 takes a waiting trial back.
 * A single statement.
 */
export async function setTrialWait(db: Database, id: string, waitMs: number): Promise<void> {
  await sql`
    update tool_trial
       set state = 'waiting', taken_by = null, replies_until = null, reply = null,
           waits_until = app_now() + ${waitMs}::float8 * interval '1 millisecond'
     where id = ${id}::uuid and (state = 'waiting' or reply ->> 'unavailable' = 'true')
  `.execute(db);
}

/**
 * Ends the wait of a trial whose time is over. Returns false if a worker has taken it, or its time was extended.
 * Locks: the row, after a claim that has locked it. A single statement; a claim that comes to the changed row reads its time again.
 */
export async function endTrialWait(db: Database, id: string): Promise<boolean> {
  const { rows } = await sql`
    update tool_trial set waits_until = app_now()
     where id = ${id}::uuid and state = 'waiting' and waits_until <= app_now() returning id
  `.execute(db);
  return rows.length > 0;
}

/** Ends a trial with its reply. Returns false if it has ended or is forgotten. A single statement. */
export async function commitToolTrial(db: Database, id: string, reply: ToolTrialReply): Promise<boolean> {
  const storable = { ...reply, result: storableText(reply.result) };
  const { rows } = await sql`
    update tool_trial set state = 'ended', reply = ${storableJson(storable)}::json
     where id = ${id}::uuid and state = 'running' returning id
  `.execute(db);
  return rows.length > 0;
}

/** Forgets trials that are older than `hours`. A single statement. Index: `tool_trial_by_age`. */
export async function forgetToolTrials(db: Database, hours: number): Promise<void> {
  await sql`delete from tool_trial where ${isOldTrial(hours)}`.execute(db);
}
