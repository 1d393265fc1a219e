import { toStorable, type Cap } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { unnestRows, textSlices } from '../unnest-rows.ts';
import { jsonRowChunks, storableJson, storableText } from '../json-rows.ts';
import { insertBatchLabels } from './batch-labels.ts';
import { tallySlot } from './tallies.ts';
import type { InputMessage, NewBatch, NewRun } from './new-batch.ts';
import { choosePilot } from './pilot.ts';
import { queueReadyRuns } from '../run/queue-again.ts';
import { RUNS_PER_CHUNK } from '../run/run-chunks.ts';
import { rowsPerStatement } from '../rows-per-statement.ts';

/** A run of an accepted batch, and the place of its input. */
export interface PlannedRun {
  readonly id: string;
  readonly request: NewRun;
  readonly conversation_id: string;
  readonly definition_id: string;
  readonly ordinal: number;
  /** First and last message of its input; null when it must wait. */
  readonly first_seq: number | null;
  readonly last_seq: number | null;
}

/** Inserts all rows of an accepted batch with `now` as their time. The caller holds the conversations. */
export async function insertAccepted(
  trx: Tx,
  projectId: string,
  batch: NewBatch,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  const { runs } = batch;
  const budgeted = isLimited(batch.cap) || runs.some(({ cap }) => isLimited(cap));
  const stored: StoredState = {
    ...{ state: 'running', total: runs.length, accepted: runs.length, queued: countQueued(plan) },
    ...{ source: null, budgeted },
  };
  await insertBatch(trx, projectId, batch, stored, now);
  await insertRunRows(trx, projectId, { ...batch, created_at: now }, plan, now);
  if (batch.pilot == null) {
    await insertReadyChunks(trx, projectId, plan, now);
    return;
  }
  await choosePilot(trx, batch.id);
  await queueReadyRuns(trx, batch.id, null);
}

/** The columns of a batch row that tell whether its runs are stored. */
export interface StoredState {
  readonly state: 'running' | 'receiving';
  readonly total: number;
  readonly accepted: number;
  readonly source: object | null;
  readonly queued: number;
  /** Whether it, or one of its runs, has a cap. */
  readonly budgeted: boolean;
}

/** The batch of planned runs, as far as their rows depend on it. */
export interface BatchOfRuns extends Pick<NewBatch, 'id' | 'deadline'> {
  /** ISO time with microseconds; all runs of a batch share it. */
  readonly created_at: string;
}

/** Inserts the rows of planned runs, except their chunks. The caller holds the conversations. */
export async function insertRunRows(
  trx: Tx,
  projectId: string,
  batch: BatchOfRuns,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  await assignConversations(trx, projectId, plan, now);
  await insertRuns(trx, projectId, batch, plan, now);
  await insertMessages(trx, projectId, plan, now);
  await insertQueuedInput(trx, projectId, plan);
}

/** Counts the runs that wait for their conversation. */
export function countQueued(plan: readonly PlannedRun[]): number {
  return plan.filter((run) => run.first_seq === null).length;
}

/** Inserts the row of a batch, its budget and its idempotency key. */
export async function insertBatch(
  trx: Tx,
  projectId: string,
  batch: Omit<NewBatch, 'runs'>,
  { state, total, accepted, source, queued, budgeted }: StoredState,
  now: string,
): Promise<void> {
  await sql`
    with accepted as (
      insert into batch (id, project_id, state, total, accepted, source, metadata, callback_url, callback_events, apply, hold_if,
        pilot, pilot_state, budgeted, schedule_id, tick_due_at, expires_in_days, name, tags, stop_when, retry_of, created_at,
        updated_at, next_due_at)
      values (${batch.id}, ${projectId}, ${state}, ${total}, ${accepted},
        ${source === null ? null : storableJson(source)}::json,
        ${batch.metadata === null ? null : storableJson(batch.metadata)}::json, ${batch.callback_url},
        ${[...(batch.callback_events ?? [])]}::text[],
        ${batch.apply ?? 'auto'}, ${batch.hold_if == null ? null : JSON.stringify(batch.hold_if)}::json,
        ${batch.pilot == null ? null : JSON.stringify(batch.pilot)}::json, ${batch.pilot == null ? null : 'running'},
        ${budgeted}, ${batch.tick?.schedule_id ?? null}, ${batch.tick?.due_at ?? null}, ${batch.expires_in_days ?? null},
        ${storableText(batch.name ?? null)}, ${[...(batch.tags ?? [])]}::text[],
        ${batch.stop_when == null ? null : JSON.stringify(batch.stop_when)}::json, ${batch.retry_of ?? null}, ${now}, ${now},
        ${state === 'receiving' ? now : null})
      returning id, project_id)
    insert into batch_tally (batch_id, slot, project_id, queued)
    select id, ${tallySlot()}::int, project_id, ${queued}::int from accepted where ${queued}::int > 0
  `.execute(trx);
  if (budgeted) {
    await sql`
      insert into batch_budget (batch_id, project_id, max_cost_nanousd, max_output_tokens)
      values (${batch.id}, ${projectId}, ${batch.cap?.cost_nanousd ?? null}, ${batch.cap?.output_tokens ?? null})
    `.execute(trx);
  }
  await insertBatchLabels(trx, batch);
  if (batch.idempotency === null) return;
  const { key, request_sha256, by_retry } = batch.idempotency;
  await sql`
    insert into idempotency_key (project_id, key, request_sha256, batch_id, created_at, by_retry)
    values (${projectId}, ${key}, ${request_sha256}, ${batch.id}, ${now}, ${by_retry})
    on conflict (project_id, key) do update
      set request_sha256 = excluded.request_sha256, batch_id = excluded.batch_id, made = null, created_at = excluded.created_at,
          by_retry = excluded.by_retry
  `.execute(trx);
}

/** True for a cap with a limit. */
export function isLimited(cap: Cap | undefined): boolean {
  return cap !== undefined && (cap.cost_nanousd !== null || cap.output_tokens !== null);
}

/** Creates the isolated conversations and assigns every starting run its conversation. */
async function assignConversations(
  trx: Tx,
  projectId: string,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  const starting = plan.filter((run) => run.first_seq !== null);
  const recordsOfHolders = (rows: readonly PlannedRun[]): RawBuilder<unknown> =>
    unnestRows(rows, {
      id: ['uuid', (run) => run.conversation_id],
      run_id: ['uuid', (run) => run.id],
    });
  for (const rows of rowsPerStatement(starting.filter((run) => run.request.isolated))) {
    await sql`
      insert into conversation (id, project_id, run_id, created_at)
      select d.id, ${projectId}::uuid, d.run_id, ${now}::timestamptz
      from ${recordsOfHolders(rows)}
    `.execute(trx);
  }
  for (const rows of rowsPerStatement(starting.filter((run) => !run.request.isolated))) {
    await sql`
      update conversation c set run_id = d.run_id
      from ${recordsOfHolders(rows)}
      where c.id = d.id and c.run_id is null
    `.execute(trx);
  }
}

async function insertRuns(
  trx: Tx,
  projectId: string,
  batch: BatchOfRuns,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  for (const rows of rowsPerStatement(plan)) {
    await sql`
      insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state,
        max_steps, max_cost_nanousd, max_output_tokens, first_seq, last_seq, deadline_at, overdue_from, created_at,
        started_at)
      select d.id, ${projectId}::uuid, ${batch.id}::uuid, d.agent_id, d.conversation_id, d.definition_id, d.ordinal, d.custom_id,
        case when d.first_seq is null then 'queued' else 'ready' end, d.max_steps, d.max_cost_nanousd, d.max_output_tokens,
        d.first_seq, d.last_seq, d.deadline_at::timestamptz, d.deadline_at::timestamptz, ${batch.created_at}::timestamptz,
        case when d.first_seq is not null then ${now}::timestamptz end
      from ${unnestRows(rows, {
        id: ['uuid', (run) => run.id],
        agent_id: ['uuid', ({ request }) => request.agent_id],
        conversation_id: ['uuid', (run) => run.conversation_id],
        definition_id: ['uuid', (run) => run.definition_id],
        ordinal: ['int', (run) => run.ordinal],
        custom_id: ['text', ({ request }) => storableText(request.custom_id)],
        max_steps: ['int', ({ request }) => request.max_steps],
        max_cost_nanousd: ['bigint', ({ request }) => request.cap?.cost_nanousd ?? null],
        max_output_tokens: ['bigint', ({ request }) => request.cap?.output_tokens ?? null],
        first_seq: ['int', (run) => run.first_seq],
        last_seq: ['int', (run) => run.last_seq],
        deadline_at: ['text', ({ request }) => earlier(request.deadline, batch.deadline)],
      })}
    `.execute(trx);
  }
}

/** Returns the earlier of two ISO times; null without any. */
function earlier(one: string | null | undefined, other: string | null | undefined): string | null {
  if (one == null || other == null) return one ?? other ?? null;
  return Date.parse(one) < Date.parse(other) ? one : other;
}

/** Puts the starting runs into chunks for the compose flow. */
async function insertReadyChunks(
  trx: Tx,
  projectId: string,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  const ready = plan.filter((run) => run.first_seq !== null).map((run) => run.id);
  const chunks: object[] = [];
  for (let from = 0; from < ready.length; from += RUNS_PER_CHUNK) {
    chunks.push({ id: newId(), run_ids: ready.slice(from, from + RUNS_PER_CHUNK) });
  }
  for (const { json } of jsonRowChunks(chunks)) {
    await sql`
      insert into run_chunk (id, project_id, kind, run_ids, created_at, next_due_at)
      select id, ${projectId}::uuid, 'ready', run_ids, ${now}::timestamptz, ${now}::timestamptz
      from json_to_recordset(${json}::json) as r (id uuid, run_ids uuid[])
    `.execute(trx);
  }
}

interface InputRow {
  readonly run: PlannedRun;
  readonly seq: number;
  readonly message: InputMessage;
  readonly content: string;
}

/** Serializes the content of a message as text that Postgres can parse. */
function contentOf(message: InputMessage): string {
  return toStorable(JSON.stringify(message.content));
}

function* inputRows(plan: readonly PlannedRun[]): Generator<InputRow> {
  for (const run of plan) {
    let seq = run.first_seq;
    if (seq === null) continue;
    for (const message of run.request.messages) {
      yield { run, seq: seq++, message, content: contentOf(message) };
    }
  }
}

async function insertMessages(
  trx: Tx,
  projectId: string,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  for (const rows of rowsPerStatement(inputRows(plan), ({ content }) => content.length)) {
    const contents = textSlices(rows.map(({ content }) => content));
    await sql`
      insert into message (project_id, conversation_id, seq, run_id, role, content, otid, name, created_at)
      select ${projectId}::uuid, d.conversation_id, d.seq, d.run_id, d.role,
        convert_from(substr(${contents.bytes}::bytea, d.start, d.length), 'UTF8')::json, d.otid, d.name, ${now}::timestamptz
      from ${unnestRows(rows, {
        conversation_id: ['uuid', ({ run }) => run.conversation_id],
        seq: ['int', ({ seq }) => seq],
        run_id: ['uuid', ({ run }) => run.id],
        role: ['word', ({ message }) => message.role],
        start: ['int', (_row, index) => contents.startOf(index)],
        length: ['int', (_row, index) => contents.lengthOf(index)],
        otid: ['text', ({ message }) => storableText(message.otid)],
        name: ['text', ({ message }) => storableText(message.name)],
      })}
    `.execute(trx);
  }
}

function* queuedRows(plan: readonly PlannedRun[]): Generator<object> {
  for (const run of plan) {
    if (run.first_seq !== null) continue;
    const messages = run.request.messages.map((message) => {
      const row = { role: message.role, otid: storableText(message.otid), name: storableText(message.name) };
      return `{"content":${contentOf(message)},${JSON.stringify(row).slice(1)}`;
    });
    yield { run_id: run.id, messages: `[${messages.join(',')}]` };
  }
}

async function insertQueuedInput(trx: Tx, projectId: string, plan: readonly PlannedRun[]): Promise<void> {
  for (const { json } of jsonRowChunks(queuedRows(plan))) {
    await sql`
      insert into queued_input (run_id, project_id, messages)
      select run_id, ${projectId}::uuid, messages::json
      from json_to_recordset(${json}::json) as r (run_id uuid, messages text)
    `.execute(trx);
  }
}
