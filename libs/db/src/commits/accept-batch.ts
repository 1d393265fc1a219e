import {
  checkRulesFit,
  NightshiftError,
  parseToolRules,
  toStorable,
  toStorableText,
  type Cap,
  type ContentBlock,
  type ResultFormat,
  type ToolDefinition,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import { newConversationId, newId, newRunId, type Tx } from '../connect.ts';
import { lockConversations } from '../locks/lock-conversations.ts';
import { wishKey, type DefinitionWish } from '../reads/agent-definitions.ts';
import { readDefinitions } from '../reads/definitions.ts';
import { recordsOf, textSlices } from './columns.ts';
import { freezeDefinitions, type FrozenAgent } from './freeze-definitions.ts';
import { jsonRowChunks, storableJson } from './json-rows.ts';
import { rowsPerStatement } from './rows-per-statement.ts';
import { RUNS_PER_CHUNK } from './run-chunks.ts';

/** A message that a caller sends to an agent. */
export interface InputMessage {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly ContentBlock[];
  /** The caller's own name for it. */
  readonly otid: string | null;
  readonly name: string | null;
}

/** One request of a batch. */
export interface NewRun {
  readonly agent_id: string;
  /** The caller's own name for it, unique in the batch. */
  readonly custom_id: string | null;
  readonly max_steps: number;
  readonly messages: readonly InputMessage[];
  /** Whether it reads and writes a conversation of its own instead of the agent's. */
  readonly isolated: boolean;
  /** Tools that the caller carries out, in addition to the agent's; their names are none of the agent's. */
  readonly client_tools?: readonly ToolDefinition[];
  /** What its result must look like; `none`: anything; default: as its agent says. */
  readonly result_format?: ResultFormat | 'none' | null;
  /** ISO time from when on it takes no further step; default: its batch's. */
  readonly deadline?: string | null;
  /** What it may use; absent: no limit of its own. */
  readonly cap?: Cap;
}

export interface NewBatch {
  readonly id: string;
  readonly callback_url: string | null;
  /** ISO time from when on none of its runs takes a further step; default: none. */
  readonly deadline?: string | null;
  readonly metadata: object | null;
  /** Whether what its runs change in memory is in force at once (the default), or held until it is accepted. */
  readonly apply?: 'auto' | 'review';
  /** What all its runs together may use; absent: no limit. */
  readonly cap?: Cap;
  /** In request order. */
  readonly runs: readonly NewRun[];
  /** Where in the body what all runs share stands, such as `/template`; null where each request stands for itself. */
  readonly shared_path?: string | null;
  /** Recorded with the batch, so that a repetition of the request finds it. */
  readonly idempotency: { readonly key: string; readonly request_sha256: string } | null;
}

/** What an accept did. */
export interface AcceptedBatch {
  /** Ids of the runs, in request order. */
  readonly run_ids: readonly string[];
  /** Handles of their models, in request order. */
  readonly models: readonly string[];
  readonly ready: number;
  readonly queued: number;
}

/**
 * Stores a batch with its runs, all or nothing. Definitions are frozen, then in request order the first run of every free
 * conversation starts (`ready`, its input appended to the conversation) and the others wait (`queued`, their input in
 * `queued_input`, whose messages are rows `{role, content, otid, name}` with storable content).
 *
 * Locks the agents' conversations in id order (see `lockConversations`), so whether a run holds one cannot change meanwhile;
 * then writes new rows only. Statements: about ten for up to 5,000 runs, and five more per further 5,000. Run ids ascend in request order and share one
 * `created_at`, so `(created_at, id)` is the order in which the runs of one conversation take turns.
 *
 * Throws `not_found`, naming the request, for an agent that does not exist, and `validation_failed` for one that could
 * not make its first call by its tool rules.
 */
export async function acceptBatch(trx: Tx, projectId: string, batch: NewBatch): Promise<AcceptedBatch> {
  const wishes = wishesOf(batch.runs);
  const frozen = await freezeDefinitions(trx, projectId, distinctWishes(wishes));
  assertAgentsExist(batch, wishes, frozen);
  const agents = wishes.map(({ key }) => frozen.get(key) as FrozenAgent);
  await assertDefinitionsFit(trx, batch, agents);
  const shared = new Set(
    agents
      .filter((_, ordinal) => batch.runs[ordinal]?.isolated !== true)
      .map((agent) => agent.conversation_id),
  );
  await lockConversations(trx, [...shared]);
  const { now, conversations } = await readConversations(trx, [...shared]);
  const plan = planRuns(batch, agents, conversations);

  await insertBatch(trx, projectId, batch, now);
  await takeConversations(trx, projectId, plan, now);
  await insertRuns(trx, projectId, batch, plan, now);
  await insertReadyChunks(trx, projectId, plan, now);
  await insertMessages(trx, projectId, plan, now);
  await insertQueuedInput(trx, projectId, plan);
  const ready = plan.filter((run) => run.first_seq !== null).length;
  const models = agents.map(({ model }) => model);
  return { run_ids: plan.map((run) => run.id), models, ready, queued: plan.length - ready };
}

/** Throws `not_found`, naming the requests, for agents of which no wish is among the `known`, by key. */
export function assertAgentsExist(
  batch: Pick<NewBatch, 'shared_path'>,
  wishes: readonly RunWish[],
  known: { has(key: string): boolean },
): void {
  const named = batch.shared_path == null ? wishes : wishes.slice(0, 1);
  const fields = named.flatMap(({ agent_id, key }, index) =>
    known.has(key)
      ? []
      : [{ path: `${pathOf(batch, index)}/agent_id`, message: `There is no agent agent-${agent_id}.` }],
  );
  const [first] = fields;
  if (first === undefined) return;
  const rest = fields.length === 1 ? '' : ` ${fields.length - 1} more are unknown.`;
  throw new NightshiftError('not_found', `${first.message}${rest} Nothing was stored.`, {
    fields: fields.slice(0, 100),
  });
}

function pathOf({ shared_path }: Pick<NewBatch, 'shared_path'>, index: number): string {
  return shared_path ?? `/requests/${index}`;
}

/** The definition that a run asks for. */
export interface RunWish extends DefinitionWish {
  /** By {@link wishKey}. */
  readonly key: string;
}

/** The definitions that runs ask for, in their order. What neighbours share, as those of a template do, is written once. */
export function wishesOf(runs: readonly NewRun[]): readonly RunWish[] {
  let last: { readonly run: NewRun; readonly wish: RunWish } | null = null;
  return runs.map((run) => {
    const { agent_id, client_tools = NO_TOOLS, result_format = null } = run;
    if (
      last?.wish.agent_id === agent_id &&
      (last.run.client_tools ?? NO_TOOLS) === client_tools &&
      (last.run.result_format ?? null) === result_format
    )
      return last.wish;
    const wish = {
      agent_id,
      client_tools_json: client_tools.length === 0 ? null : storableJson(client_tools),
      result_format_json:
        result_format === null || result_format === 'none' ? result_format : storableJson(result_format),
    };
    last = { run, wish: { ...wish, key: wishKey(wish) } };
    return last.wish;
  });
}

const NO_TOOLS: readonly ToolDefinition[] = [];

/** Each wish once. */
export function distinctWishes(wishes: readonly RunWish[]): readonly RunWish[] {
  return [...new Map(wishes.map((wish) => [wish.key, wish])).values()];
}

/**
 * An agent may have lost a tool since its rules were checked, and a client tool may have the name of one of its own: better
 * refused than paid for.
 */
async function assertDefinitionsFit(trx: Tx, batch: NewBatch, agents: readonly FrozenAgent[]): Promise<void> {
  const doubtful = agents.filter((agent) => agent.has_rules || agent.client_tools_json !== null);
  const definitions = await readDefinitions(trx, [...new Set(doubtful.map((agent) => agent.definition_id))]);
  for (const { id, tool_rules, tools } of definitions) {
    const [problem] = checkRulesFit(parseToolRules(tool_rules).rules, tools);
    const twin = tools.find(({ name }, place) => tools.findIndex((tool) => tool.name === name) < place);
    if (problem === undefined && twin === undefined) continue;
    const index = agents.findIndex((agent) => agent.definition_id === id);
    const path = `${pathOf(batch, index)}/${problem === undefined ? 'client_tools' : 'agent_id'}`;
    const message =
      problem === undefined
        ? `has a second tool '${twin?.name ?? ''}': the agent has one of that name.`
        : `has tool rules that it cannot run by: ${problem.path}: ${problem.message}`;
    throw new NightshiftError('validation_failed', `${path} ${message} Nothing was stored.`, {
      fields: [{ path, message }],
    });
  }
}

interface ConversationState {
  readonly last_seq: number;
  /** Some run holds it or waits for it. */
  readonly taken: boolean;
}

interface ConversationStates {
  /** The database's time, as text because a Date would lose its microseconds. */
  readonly now: string;
  readonly conversations: ReadonlyMap<string, ConversationState>;
}

/** Served by `run_queued` and the primary keys of `conversation` and `message`. */
async function readConversations(trx: Tx, ids: readonly string[]): Promise<ConversationStates> {
  const { rows } = await sql<ConversationState & { now: string; id: string | null }>`
    select t.now::text, c.id,
      coalesce((select m.seq from message m where m.conversation_id = c.id order by m.seq desc limit 1), 0) as last_seq,
      c.run_id is not null or exists (
        select from run r where r.conversation_id = c.id and r.started_at is null and r.ended_at is null) as taken
    from (select app_now() as now) t left join conversation c on c.id = any(${[...ids]}::uuid[])
  `.execute(trx);
  const conversations = new Map(rows.flatMap((row) => (row.id === null ? [] : [[row.id, row] as const])));
  const [first] = rows;
  if (first === undefined) throw new Error('The database did not say its time.');
  return { now: first.now, conversations };
}

interface PlannedRun {
  readonly id: string;
  readonly request: NewRun;
  readonly conversation_id: string;
  readonly definition_id: string;
  readonly ordinal: number;
  /** First and last message of its input; null when it has to wait. */
  readonly first_seq: number | null;
  readonly last_seq: number | null;
}

function planRuns(
  batch: NewBatch,
  agents: readonly FrozenAgent[],
  conversations: ReadonlyMap<string, ConversationState>,
): readonly PlannedRun[] {
  const ids = distinctSorted(newRunId, batch.runs.length);
  const started = new Set<string>();
  return ids.map((id, ordinal) => {
    const request = batch.runs[ordinal] as NewRun;
    const agent = agents[ordinal] as FrozenAgent;
    const conversation_id = request.isolated ? newConversationId() : agent.conversation_id;
    const state = conversations.get(conversation_id) ?? { last_seq: 0, taken: false };
    const starts = request.isolated || (!state.taken && !started.has(conversation_id));
    started.add(conversation_id);
    return {
      id,
      request,
      conversation_id,
      definition_id: agent.definition_id,
      ordinal,
      first_seq: starts ? state.last_seq + 1 : null,
      last_seq: starts ? state.last_seq + request.messages.length : null,
    };
  });
}

/** Ids of one millisecond are random among themselves: sorted, they give the runs of a batch their order. */
function distinctSorted(make: () => string, count: number): readonly string[] {
  const ids = new Set<string>();
  while (ids.size < count) ids.add(make());
  return [...ids].sort();
}

async function insertBatch(trx: Tx, projectId: string, batch: NewBatch, now: string): Promise<void> {
  await sql`
    insert into batch (id, project_id, state, total, metadata, callback_url, apply, budgeted, created_at, updated_at)
    values (${batch.id}, ${projectId}, 'running', ${batch.runs.length},
      ${batch.metadata === null ? null : storableJson(batch.metadata)}::json, ${batch.callback_url},
      ${batch.apply ?? 'auto'}, ${isCapped(batch)}, ${now}, ${now})
  `.execute(trx);
  if (isCapped(batch)) {
    await sql`
      insert into batch_budget (batch_id, project_id, max_cost_nanousd, max_output_tokens)
      values (${batch.id}, ${projectId}, ${batch.cap?.cost_nanousd ?? null}, ${batch.cap?.output_tokens ?? null})
    `.execute(trx);
  }
  if (batch.idempotency === null) return;
  await sql`
    insert into idempotency_key (project_id, key, request_sha256, batch_id, created_at)
    values (${projectId}, ${batch.idempotency.key}, ${batch.idempotency.request_sha256}, ${batch.id}, ${now})
    on conflict (project_id, key) do update
      set request_sha256 = excluded.request_sha256, batch_id = excluded.batch_id, created_at = excluded.created_at
  `.execute(trx);
}

function isCapped(batch: NewBatch): boolean {
  return [batch, ...batch.runs].some(
    ({ cap }) => cap !== undefined && (cap.cost_nanousd !== null || cap.output_tokens !== null),
  );
}

/** Makes the isolated conversations, and gives every run that starts the conversation it goes on in. */
async function takeConversations(
  trx: Tx,
  projectId: string,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  const starting = plan.filter((run) => run.first_seq !== null);
  const recordsOfHolders = (rows: readonly PlannedRun[]): RawBuilder<unknown> =>
    recordsOf(rows, {
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
  batch: NewBatch,
  plan: readonly PlannedRun[],
  now: string,
): Promise<void> {
  for (const rows of rowsPerStatement(plan)) {
    await sql`
      insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state,
        max_steps, max_cost_nanousd, max_output_tokens, first_seq, last_seq, deadline_at, created_at, started_at)
      select d.id, ${projectId}::uuid, ${batch.id}::uuid, d.agent_id, d.conversation_id, d.definition_id, d.ordinal, d.custom_id,
        case when d.first_seq is null then 'queued' else 'ready' end, d.max_steps, d.max_cost_nanousd, d.max_output_tokens,
        d.first_seq, d.last_seq, d.deadline_at::timestamptz, ${now}::timestamptz,
        case when d.first_seq is not null then ${now}::timestamptz end
      from ${recordsOf(rows, {
        id: ['uuid', (run) => run.id],
        agent_id: ['uuid', ({ request }) => request.agent_id],
        conversation_id: ['uuid', (run) => run.conversation_id],
        definition_id: ['uuid', (run) => run.definition_id],
        ordinal: ['int', (run) => run.ordinal],
        custom_id: ['text', ({ request }) => storable(request.custom_id)],
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

function storable(text: string | null): string | null {
  return text === null ? null : toStorableText(text);
}

/** Of two ISO times the earlier one; null for none. */
function earlier(one: string | null | undefined, other: string | null | undefined): string | null {
  if (one == null || other == null) return one ?? other ?? null;
  return Date.parse(one) < Date.parse(other) ? one : other;
}

/** Makes the runs that start findable for the compose flow. */
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

/** A message as a row; its content is text that Postgres can take apart again. */
function toMessageRow(message: InputMessage): {
  role: string;
  content: string;
  otid: string | null;
  name: string | null;
} {
  return {
    role: message.role,
    content: toStorable(JSON.stringify(message.content)),
    otid: storable(message.otid),
    name: storable(message.name),
  };
}

interface InputRow extends ReturnType<typeof toMessageRow> {
  readonly run: PlannedRun;
  readonly seq: number;
}

function* inputRows(plan: readonly PlannedRun[]): Generator<InputRow> {
  for (const run of plan) {
    if (run.first_seq === null) continue;
    for (const [index, message] of run.request.messages.entries()) {
      yield { run, seq: run.first_seq + index, ...toMessageRow(message) };
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
      from ${recordsOf(rows, {
        conversation_id: ['uuid', ({ run }) => run.conversation_id],
        seq: ['int', ({ seq }) => seq],
        run_id: ['uuid', ({ run }) => run.id],
        role: ['word', ({ role }) => role],
        start: ['int', (_row, index) => contents.startOf(index)],
        length: ['int', (_row, index) => contents.lengthOf(index)],
        otid: ['text', ({ otid }) => otid],
        name: ['text', ({ name }) => name],
      })}
    `.execute(trx);
  }
}

function* queuedRows(plan: readonly PlannedRun[]): Generator<object> {
  for (const run of plan) {
    if (run.first_seq !== null) continue;
    const messages = run.request.messages.map((message) => {
      const { content, ...row } = toMessageRow(message);
      return `{"content":${content},${JSON.stringify(row).slice(1)}`;
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
