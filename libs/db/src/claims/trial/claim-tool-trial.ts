import type { JsonObject, ToolDefinition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { IS_TRIAL_DUE } from '../../reads/due-conditions.ts';

/** A trial to carry out. */
export interface ClaimedToolTrial {
  readonly id: string;
  readonly agent_id: string;
  readonly tool: ToolDefinition;
  readonly arguments: JsonObject;
}

/**
 * Claims the trial that waits longest, for ever: no other worker carries it out. Null without one.
 * `graceMs`: added to the timeout of its tool, until the call counts as lost. The caller ends with `commitToolTrial`.
 * Locks: the row, with skip locked. Index: `tool_trial_waiting`.
 */
export async function claimToolTrial(
  db: Database,
  owner: string,
  graceMs: number,
): Promise<ClaimedToolTrial | null> {
  const { rows } = await sql<ClaimedToolTrial>`
    with due ${AS_FIRST} (
      select id from tool_trial where ${IS_TRIAL_DUE} order by created_at limit 1 for update skip locked)
    update tool_trial t
       set state = 'running', taken_by = ${owner},
           replies_until = app_now() + ((tool ->> 'timeout_ms')::float8 + ${graceMs}) * interval '1 millisecond'
      from due where t.id = due.id
    returning t.id, t.agent_id, t.tool, t.arguments
  `.execute(db);
  return rows[0] ?? null;
}
