import type { Trail } from '@nightshift/agent-core';
import { sql, type NotNull } from 'kysely';
import type { Database } from '../../connect.ts';

/** A call that awaits or awaited the caller, with the sources of its arguments. */
export interface AwaitedCallRow {
  readonly step_number: number;
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly awaits: 'approval' | 'answer';
  readonly verdict: 'approved' | 'denied' | 'answered' | null;
  readonly answer_sha256: string | null;
}

/** The sources of a run's call plans: its definition, its trail, and its answer as stored. */
export interface AwaitingRun {
  readonly definition_id: string;
  readonly step_number: number;
  readonly trail: Trail | null;
  /** The stored content of the run's last message. */
  readonly content: string;
  /** Calls without the caller's answer. */
  readonly open_tool_use_ids: readonly string[];
}

/** Reads all calls of a run that await or awaited the caller, in order. Index: primary key. */
export async function readAwaitedCalls(db: Database, runId: string): Promise<readonly AwaitedCallRow[]> {
  return db
    .selectFrom('tool_call')
    .select(['step_number', 'call_index', 'tool_use_id', 'tool_name', 'awaits', 'verdict', 'answer_sha256'])
    .where('run_id', '=', runId)
    .where('awaits', 'is not', null)
    .$narrowType<{ awaits: NotNull }>()
    .orderBy('step_number')
    .orderBy('call_index')
    .execute();
}

/** Reads the runs in `requires_action` among the given runs, by id. Index: primary keys. */
export async function readAwaitingRuns(
  db: Database,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, AwaitingRun>> {
  if (runIds.length === 0) return new Map();
  const { rows } = await sql<AwaitingRun & { id: string }>`
    select r.id, r.definition_id, r.step_number, r.trail, m.content::text as content,
           array(select c.tool_use_id from tool_call c
                  where c.run_id = r.id and c.awaits is not null and c.verdict is null) as open_tool_use_ids
      from run r join message m on m.conversation_id = r.conversation_id and m.seq = r.last_seq
     where r.id = any(${runIds}::uuid[]) and r.state = 'requires_action'
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}
