import { isEmptyAnswer, type ContentBlock, type StepKey } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { parseContent } from './messages.ts';
import { readRequestsOf, type SealedRequest, type ShownIn } from './sealed-requests.ts';
import { readStalePrefixesOf } from './stale-prefixes.ts';

/*
 * Requests of steps that may have ended long ago. Runs end and hide their messages; rows of steps and messages stay.
 */

/** The submission of a step, and the sources of its request that were lost since. */
export interface PastSubmission {
  readonly nonce: string;
  /** Null while it waits to be sent. */
  readonly sent_at: Date | null;
  /** The cache marks of the request; null if they are not kept. */
  readonly mark_byte: number | null;
  /** The conversation was reset after the step. */
  readonly is_reset: boolean;
}

/** Reads the submission of a step; undefined without such a step. Index: primary keys. */
export async function readPastSubmission(db: Database, key: StepKey): Promise<PastSubmission | undefined> {
  const { rows } = await sql<PastSubmission>`
    select p.nonce, case when p.state <> 'building' then coalesce(p.submitted_at, p.submit_started_at) end as sent_at,
           case when p.cache_marks = '' then 0
                when octet_length(p.cache_marks) > s.ordinal then get_byte(p.cache_marks, s.ordinal) end as mark_byte,
           s.context_from_seq > 1 and c.reset_seq >= s.context_from_seq as is_reset
      from step s
      join provider_batch p on p.id = s.provider_batch_id
      join run r on r.id = s.run_id
      join conversation c on c.id = r.conversation_id
     where ${isStep(key)}
  `.execute(db);
  return rows[0];
}

/**
 * Reads the numbers of the messages in the range of a request that it did not show: answers of its run that were hidden when
 * they came. An empty answer is asked for again; an answer that fills the window is summarised without itself. The end of a
 * run may have hidden further messages since.
 * Index: primary keys of step, run and message.
 */
export async function readUnshownSeqs(db: Database, key: StepKey): Promise<readonly number[]> {
  const { rows } = await sql<{
    seq: number;
    content: readonly ContentBlock[] | string;
    fills_window: boolean;
  }>`
    select m.seq, m.content, m.step_number is null as fills_window
      from step s
      join run r on r.id = s.run_id
      join message m on m.conversation_id = r.conversation_id and m.seq between s.context_from_seq and s.context_to_seq
     where ${isStep(key)} and not m.shown and m.run_id = s.run_id and m.role = 'assistant'
       and exists (select from step a
                    where a.run_id = m.run_id
                      and case when m.step_number is null
                               then a.stop_reason = 'model_context_window_exceeded' and a.context_to_seq = m.seq - 1
                               else a.number = m.step_number and a.stop_reason in ('end_turn', 'stop_sequence', 'pause_turn')
                          end)
  `.execute(db);
  return rows
    .filter(({ content, fills_window }) => fills_window || isEmptyAnswer(parseContent(content)))
    .map(({ seq }) => seq);
}

/** Reads the request of a step, without the messages `unshown`; undefined without such a step. */
export async function readPastRequest(
  db: Database,
  key: StepKey,
  unshown: readonly number[],
): Promise<SealedRequest | undefined> {
  const [request] = await readRequestsOf(db, isStep(key), shownThen(unshown));
  return request;
}

/** Counts as `readStalePrefixes` for the request of a step, without the messages `unshown`. */
export function readPastStalePrefix(
  db: Database,
  key: StepKey,
  unshown: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  return readStalePrefixesOf(db, isStep(key), shownThen(unshown));
}

const isStep = ({ run_id, number, attempt }: StepKey): RawBuilder<unknown> =>
  sql`(s.run_id, s.number, s.attempt) = (${run_id}::uuid, ${number}::int, ${attempt}::int)`;

/** The messages of a request when it was sealed. */
const shownThen =
  (unshown: readonly number[]): ShownIn =>
  (message) => {
    const of = (column: string): RawBuilder<unknown> => sql.ref(`${message}.${column}`);
    return sql`(${of('shown')} or ${of('run_id')} = s.run_id) and ${of('seq')} <> all(${[...unshown]}::int[])`;
  };

/** An ended call of a run, as tool rules see it. */
export interface PastRuledCall {
  readonly step_number: number;
  readonly tool_name: string;
  readonly carried_out: boolean;
  readonly denied: boolean;
  /** Of the last call that was carried out; null for others. */
  readonly result: string | null;
}

/**
 * Reads the calls of a run before a step, in order, the last with its result.
 * Index: primary keys of tool_call and message, `message_answer_once`.
 */
export async function readPastCalls(db: Database, key: StepKey): Promise<readonly PastRuledCall[]> {
  const { rows } = await sql<Omit<PastRuledCall, 'result'> & { tool_use_id: string }>`
    select step_number, tool_use_id, tool_name, kind <> 'rejected' and verdict is distinct from 'denied' as carried_out,
           coalesce(verdict = 'denied', false) as denied
      from tool_call
     where run_id = ${key.run_id}::uuid and step_number < ${key.number}
     order by step_number, call_index
  `.execute(db);
  const last = rows.findLast(({ carried_out }) => carried_out);
  const result = last === undefined ? null : await readResult(db, key.run_id, last);
  return rows.map(({ tool_use_id: _id, ...call }, place) => ({
    ...call,
    result: rows[place] === last ? result : null,
  }));
}

async function readResult(
  db: Database,
  runId: string,
  { step_number, tool_use_id }: { readonly step_number: number; readonly tool_use_id: string },
): Promise<string | null> {
  const { rows } = await sql<{ content: readonly ContentBlock[] | string }>`
    select n.content
      from message m
      join message n on n.conversation_id = m.conversation_id and n.seq between m.seq + 1 and m.seq + 2 and n.role = 'user'
                    and n.run_id = m.run_id and n.step_number = m.step_number
     where m.run_id = ${runId}::uuid and m.step_number = ${step_number} and m.role = 'assistant'
  `.execute(db);
  const blocks = rows.flatMap(({ content }) => parseContent(content));
  const content = blocks.find((block) => block['tool_use_id'] === tool_use_id)?.['content'];
  return typeof content === 'string' ? content : null;
}
