import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { countNewMessages, type CursorCount } from './read-cursors.ts';

/** A cursor of an agent as its user sees it. */
export interface CursorRow extends CursorCount {
  readonly name: string;
  /** When the message at the position was said, or else stored; null without a message. */
  readonly position_at: Date | null;
  /** The run that was accepted last, and its batch; null for none, or after the batch was forgotten. */
  readonly last_run_id: string | null;
  readonly last_batch_id: string | null;
  /** The last rewind; null for none. */
  readonly rewound_at: Date | null;
}

interface NamedRow {
  readonly name: string;
  readonly last_run_id: string | null;
  readonly last_batch_id: string | null;
  readonly rewound_at: Date | null;
}

/**
 * Reads the cursors of an agent by name, with one statement per name and a few more. `name`: only the cursor
 * of this name.
 * Index: `cursor_span_by_agent`, all spans of the agent; primary keys.
 */
export async function listCursors(
  db: Database,
  projectId: string,
  agentId: string,
  name: string | null = null,
): Promise<readonly CursorRow[]> {
  const named = await readNames(db, agentId, name);
  const cursors: CursorRow[] = [];
  for (const row of named) {
    const counts = await countNewMessages(db, projectId, row.name, [agentId]);
    const count = counts.get(agentId);
    if (count === undefined) continue;
    cursors.push({ ...count, ...row, position_at: await readMomentOf(db, count) });
  }
  return cursors;
}

async function readNames(db: Database, agentId: string, name: string | null): Promise<readonly NamedRow[]> {
  const { rows } = await sql<NamedRow>`
    with last as (
      select distinct on (name) name, run_id, batch_id from cursor_span
       where agent_id = ${agentId} order by name, rewinds desc, top_seq desc, run_id desc),
    rewound as (select name, rewound_at from cursor_rewind where agent_id = ${agentId})
    select name, case when b.id is not null then l.run_id end as last_run_id, b.id as last_batch_id, w.rewound_at
      from last l full join rewound w using (name) left join lateral (select id from batch where id = l.batch_id) b on true
     where ${name === null ? sql`true` : sql`name = ${name}`}
     order by name
  `.execute(db);
  return rows;
}

async function readMomentOf(db: Database, { conversation_id, position }: CursorCount): Promise<Date | null> {
  const message = await db
    .selectFrom('message')
    .select(({ fn }) => fn.coalesce('said_at', 'created_at').as('at'))
    .where('conversation_id', '=', conversation_id)
    .where('seq', '=', position)
    .executeTakeFirst();
  return message?.at ?? null;
}
