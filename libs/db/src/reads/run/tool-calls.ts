import {
  toolUsesOf,
  type ContentBlock,
  type Json,
  type ToolCallState,
  type ToolKind,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { readDirection, refuseCursor, type Page } from '../keyset.ts';
import { parseContent } from './messages.ts';

/** A tool call as stored, without what it says. */
interface CallRow {
  readonly step_number: number;
  /** The attempt of its step whose answer made the call. */
  readonly step_attempt: number;
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly kind: ToolKind | 'rejected';
  readonly state: ToolCallState;
  readonly attempts: number;
  readonly awaits: 'approval' | 'answer' | null;
  readonly verdict: 'approved' | 'denied' | 'answered' | null;
  readonly held_result: string | null;
  readonly created_at: Date;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
  readonly duration_ms: number | null;
  readonly answer_bytes: number | null;
  readonly stdout: string | null;
  readonly stderr: string | null;
}

/** A tool call with its arguments and, once it has ended, its result. */
export interface RunToolCallRow extends Omit<CallRow, 'held_result'> {
  readonly arguments: Json;
  readonly result: string | null;
}

/** The place of a call in its run. */
export interface CallPlace {
  readonly number: number;
  readonly call_index: number;
}

/** The part of a list of tool calls that is asked for; the cursors are places. */
export interface CallPage extends Pick<Page, 'limit' | 'order'> {
  readonly after: CallPlace | null;
  readonly before: CallPlace | null;
}

interface Contents {
  readonly step_number: number;
  readonly answer: readonly ContentBlock[] | string;
  readonly results: readonly ContentBlock[] | string | null;
}

/**
 * Reads tool calls of a run in their order. A page ends early at a step whose texts are too large for it.
 * Throws: `validation_failed` for a cursor of another list.
 * Index: primary keys, and `message_answer_once`.
 */
export async function listToolCalls(
  db: Database,
  runId: string,
  page: CallPage,
): Promise<Listed<RunToolCallRow>> {
  for (const side of ['after', 'before'] as const) await refuseStrangers(db, runId, side, page[side]);
  const reads = readDirection({ ...page, after: null, before: page.before === null ? null : '' });
  const { rows: calls } = await selectCalls(runId, page, reads).execute(db);
  const contents = await readContents(db, runId, calls, reads);
  const steps = new Map(contents.rows.map((row) => [row.step_number, textsOf(row)]));
  const shown = calls.flatMap(({ held_result, ...call }) => {
    const texts = steps.get(call.step_number);
    if (texts === undefined) return [];
    const result = held_result ?? texts.results.get(call.tool_use_id) ?? null;
    return [{ ...call, arguments: texts.inputs.get(call.tool_use_id) ?? null, result }];
  });
  return { rows: reads === page.order ? shown : shown.reverse(), is_cut: contents.is_cut };
}

function selectCalls(runId: string, page: CallPage, reads: 'asc' | 'desc'): RawBuilder<CallRow> {
  const beyond = (side: 'after' | 'before'): RawBuilder<unknown>[] => {
    const place = page[side];
    if (place === null) return [];
    const symbol = (page.order === 'asc') === (side === 'after') ? sql`>` : sql`<`;
    return [
      sql`(c.step_number, c.call_index) ${symbol} (${place.number}::integer, ${place.call_index}::integer)`,
    ];
  };
  const direction = reads === 'asc' ? sql`asc` : sql`desc`;
  return sql<CallRow>`
    select c.step_number, s.attempt as step_attempt, c.call_index, c.tool_use_id, c.tool_name, c.kind, c.state,
           greatest(c.attempts, (c.started_at is not null)::int, o.attempts)::int as attempts, c.awaits, c.verdict, c.held_result,
           s.applied_at as created_at, c.started_at, c.ended_at, c.duration_ms, o.answer_bytes, o.stdout, o.stderr
      from tool_call c join step s on s.run_id = c.run_id and s.number = c.step_number and s.applied_at is not null
      left join tool_call_output o on o.run_id = c.run_id and o.step_number = c.step_number and o.call_index = c.call_index
     where ${sql.join([sql`c.run_id = ${runId}::uuid`, ...beyond('after'), ...beyond('before')], sql` and `)}
     order by c.step_number ${direction}, c.call_index ${direction} limit ${page.limit}`;
}

/** Reads the answers of the steps of `calls`, and the messages with their results. */
function readContents(
  db: Database,
  runId: string,
  calls: readonly CallRow[],
  reads: 'asc' | 'desc',
): Promise<Listed<Contents>> {
  const numbers = [...new Set(calls.map(({ step_number }) => step_number))];
  return readCutPage<Contents>(
    db,
    sql`
    select m.step_number, m.content as answer,
           (select n.content from message n
             where n.conversation_id = m.conversation_id and n.seq between m.seq + 1 and m.seq + 2 and n.role = 'user'
               and n.run_id = m.run_id and n.step_number = m.step_number limit 1) as results
      from message m
     where m.run_id = ${runId}::uuid and m.role = 'assistant' and m.step_number = any(${numbers}::integer[])
     order by m.step_number ${reads === 'asc' ? sql`asc` : sql`desc`}
  `,
    sql`octet_length(concat(p.answer, p.results))`,
  );
}

/** The inputs and the results of the calls of a step, by tool use id. */
function textsOf({ answer, results }: Contents): {
  readonly inputs: ReadonlyMap<unknown, Json>;
  readonly results: ReadonlyMap<unknown, string>;
} {
  const ends = results === null ? [] : parseContent(results).filter(({ type }) => type === 'tool_result');
  return {
    inputs: new Map(toolUsesOf(parseContent(answer)).map(({ id, input }) => [id, input])),
    results: new Map(
      ends.map(({ tool_use_id, content }) => [
        tool_use_id,
        typeof content === 'string' ? content : JSON.stringify(content),
      ]),
    ),
  };
}

async function refuseStrangers(
  db: Database,
  runId: string,
  side: 'after' | 'before',
  place: CallPlace | null,
): Promise<void> {
  if (place === null) return;
  const known = await db
    .selectFrom('tool_call')
    .select('call_index')
    .where('run_id', '=', runId)
    .where('step_number', '=', place.number)
    .where('call_index', '=', place.call_index)
    .executeTakeFirst();
  if (known === undefined) refuseCursor(side);
}
