/** The tables and the set-based statements of the hand-written engines. */
import pg from 'pg';
import { userText } from '../workload.ts';
import type { RowCounts } from './engine.ts';

/** Requests of one provider batch: the product's default. */
export const REQUESTS_MAX = 10_000;
const ROWS_PER_INSERT = 5_000;

/** Tables for the durable minimum: items, steps, messages, provider batches. */
const FLOOR_TABLES = `
create table pbatch (id text primary key, state text not null, requests int not null, created_at timestamptz not null default now());
create table item (id bigint primary key, step_no int not null, state text not null) with (fillfactor = 50);
create table step (item_id bigint not null, step_no int not null, pbatch_id text not null, state text not null,
  stop_reason text not null, message_id text not null, input_tokens int not null, output_tokens int not null,
  created_at timestamptz not null default now(), primary key (item_id, step_no));
create table message (item_id bigint not null, seq int not null, role text not null, content json not null,
  created_at timestamptz not null default now(), primary key (item_id, seq));
`;

export async function openFloorPool(url: string, max: number): Promise<pg.Pool> {
  const pool = new pg.Pool({ connectionString: url, max });
  await pool.query(FLOOR_TABLES);
  return pool;
}

/** Inserts items and their user messages, thousands per statement. */
export async function acceptItems(pool: pg.Pool, runs: number): Promise<void> {
  for (let from = 0; from < runs; from += ROWS_PER_INSERT) {
    const rows = Array.from({ length: Math.min(ROWS_PER_INSERT, runs - from) }, (_, index) => ({
      i: from + index,
      c: [{ type: 'text', text: userText(from + index) }],
    }));
    await pool.query({
      name: 'accept',
      text: `
        with r as materialized (select * from json_to_recordset($1::json) as d(i bigint, c json)),
        m as (insert into message (item_id, seq, role, content) select i, 0, 'user', c from r)
        insert into item (id, step_no, state) select i, 1, 'ready' from r`,
      values: [JSON.stringify(rows)],
    });
  }
}

export async function countFloorRows(pool: pg.Pool): Promise<RowCounts> {
  const { rows } = await pool.query<{ done: number; steps: number; messages: number }>(`
    select (select count(*)::int from item where state = 'done') as done,
           (select count(*)::int from step) as steps, (select count(*)::int from message) as messages`);
  return rows[0] ?? { done: 0, steps: 0, messages: 0 };
}

/** A parsed result line. */
export interface FloorLine {
  readonly item: number;
  readonly step: number;
  /** JSON text of the content, copied from the line. */
  readonly content: string;
  readonly stop_reason: string;
  readonly message_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly call: { readonly id: string; readonly input: Record<string, unknown> } | null;
}

/** Builds the JSON text of a tool result message. */
export function toolMessage(call: { readonly id: string }, result: string): string {
  return `[{"type":"tool_result","tool_use_id":"${call.id}","content":${JSON.stringify(result)}}]`;
}

function stepFields(line: FloorLine): string {
  return `{"i":${line.item},"n":${line.step},"sr":"${line.stop_reason}","mi":"${line.message_id}","it":${line.input_tokens},"ot":${line.output_tokens},"c":${line.content}`;
}

// An equality on the changing column would let the planner, whose statistics lag behind, expect one row and
// choose a nested loop.
const RECORD = `select * from json_to_recordset($1::json)
  as d(i bigint, n int, sr text, mi text, it int, ot int, c json, t json)`;
const INSERT_STEPS = `insert into step (item_id, step_no, pbatch_id, state, stop_reason, message_id, input_tokens, output_tokens)
  select i, n, $2, 'done', sr, mi, it, ot from r`;

/** Writes all rows of a chunk in one statement: steps, answers, tool results, items. */
export async function writeChunk(
  pool: pg.Pool,
  pbatchId: string,
  lines: readonly (FloorLine & { readonly result: string | null })[],
): Promise<void> {
  const payload = lines.map((line) => {
    const result =
      line.call === null || line.result === null ? '' : `,"t":${toolMessage(line.call, line.result)}`;
    return `${stepFields(line)}${result}}`;
  });
  await expectCount(lines.length, pool, {
    name: 'write-chunk',
    text: `
      with r as materialized (${RECORD}), s as (${INSERT_STEPS}),
      m as (insert into message (item_id, seq, role, content)
            select i, 2 * n - 1, 'assistant', c from r union all select i, 2 * n, 'user', t from r where t is not null)
      update item set step_no = case when r.t is null then item.step_no else item.step_no + 1 end,
             state = case when r.t is null then 'done' else 'ready' end
        from r where item.id = r.i and item.step_no - r.n = 0`,
    values: [`[${payload.join(',')}]`, pbatchId],
  });
}

/** Writes the answers of a chunk before any tool runs, and ends the items without a call. */
export async function writeAnswers(
  pool: pg.Pool,
  pbatchId: string,
  lines: readonly FloorLine[],
): Promise<void> {
  const payload = lines.map((line) => `${stepFields(line)}}`);
  const done = lines.filter((line) => line.call === null).length;
  await expectCount(done, pool, {
    name: done === 0 ? 'write-answers' : 'write-last-answers',
    text: `
      with r as materialized (${RECORD}), s as (${INSERT_STEPS})
      ${
        done === 0
          ? `, m as (insert into message (item_id, seq, role, content) select i, 2 * n - 1, 'assistant', c from r) select 1 where false`
          : `, m as (insert into message (item_id, seq, role, content) select i, 2 * n - 1, 'assistant', c from r)
             update item set state = 'done' from r where item.id = r.i and item.step_no - r.n = 0 and r.sr = 'end_turn'`
      }`,
    values: [`[${payload.join(',')}]`, pbatchId],
  });
}

/** Writes the tool results of a chunk and moves its items to their next step. */
export async function writeToolResults(
  pool: pg.Pool,
  results: readonly { readonly item: number; readonly step: number; readonly message: string }[],
): Promise<void> {
  const payload = results.map(({ item, step, message }) => `{"i":${item},"n":${step},"t":${message}}`);
  await expectCount(results.length, pool, {
    name: 'write-tool-results',
    text: `
      with r as materialized (select * from json_to_recordset($1::json) as d(i bigint, n int, t json)),
      m as (insert into message (item_id, seq, role, content) select i, 2 * n, 'user', t from r)
      update item set step_no = item.step_no + 1, state = 'ready' from r where item.id = r.i and item.step_no - r.n = 0`,
    values: [`[${payload.join(',')}]`],
  });
}

async function expectCount(count: number, pool: pg.Pool, query: pg.QueryConfig): Promise<void> {
  const { rowCount } = await pool.query(query);
  if (rowCount !== count)
    throw new Error(`${query.name ?? ''} was to write ${count} items and wrote ${rowCount ?? 0}.`);
}

/** Reads the histories of items `[from, to)` as JSON message arrays, in item order. */
export async function readHistories(
  pool: pg.Pool,
  from: number,
  to: number,
): Promise<readonly { readonly id: number; readonly messages: string }[]> {
  const { rows } = await pool.query<{ id: string; messages: string }>({
    name: 'read-histories',
    text: `
      select item_id as id, '[' || string_agg('{"role":"' || role || '","content":' || content::text || '}', ',' order by seq) || ']' as messages
        from message where item_id >= $1 and item_id < $2 group by item_id order by item_id`,
    values: [from, to],
  });
  return rows.map((row) => ({ id: Number(row.id), messages: row.messages }));
}

export async function writeProviderBatch(pool: pg.Pool, id: string, requests: number): Promise<void> {
  await pool.query({
    name: 'pbatch',
    text: `insert into pbatch (id, state, requests) values ($1, 'submitted', $2)`,
    values: [id, requests],
  });
}

export async function endProviderBatch(pool: pg.Pool, id: string): Promise<void> {
  await pool.query({
    name: 'pbatch-end',
    text: `update pbatch set state = 'ingested' where id = $1`,
    values: [id],
  });
}
