import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { rowsPerStatement } from '../rows-per-statement.ts';
import { unnestRows } from '../unnest-rows.ts';

/** The messages that a run under a cursor was given: those after `from_seq`, up to `to_seq`. */
export interface NewCursorSpan {
  readonly run_id: string;
  readonly agent_id: string;
  readonly from_seq: number;
  readonly to_seq: number;
  /** The conversation's last message, from the reading. */
  readonly top_seq: number;
}

/**
 * Stores the spans of runs that are accepted in the same transaction, each in its own isolated conversation.
 * The first span of an agent begins at the position of its reading; those of further parts follow without a gap. The caller
 * has held the lock of the agents' conversations since before the reading.
 * Index: primary key of `cursor_rewind`.
 */
export async function insertCursorSpans(
  trx: Tx,
  projectId: string,
  name: string,
  batchId: string,
  spans: readonly NewCursorSpan[],
): Promise<void> {
  for (const rows of rowsPerStatement(spans)) {
    await sql`
      insert into cursor_span (run_id, agent_id, name, project_id, batch_id, from_seq, to_seq, top_seq, rewinds)
      select d.run_id, d.agent_id, ${name}, ${projectId}::uuid, ${batchId}::uuid, d.from_seq, d.to_seq, d.top_seq,
             coalesce((select rewinds from cursor_rewind w where w.agent_id = d.agent_id and w.name = ${name}), 0)
        from ${unnestRows(rows, {
          run_id: ['uuid', (span) => span.run_id],
          agent_id: ['uuid', (span) => span.agent_id],
          from_seq: ['int', (span) => span.from_seq],
          to_seq: ['int', (span) => span.to_seq],
          top_seq: ['int', (span) => span.top_seq],
        })}
    `.execute(trx);
  }
}
