import {
  callsToPlan,
  decideResults,
  decideStep,
  isError,
  RETRY_POLICY_DEFAULT,
  type ContentBlock,
  type StepAnswer,
  type StepCall,
  type StepOutcome,
  type Usage,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import {
  claimProviderBatch,
  commitDecisions,
  commitPolled,
  commitSubmitted,
  commitToolResults,
  commitWriteAhead,
  createAgents,
  DEFAULT_PROJECT_ID,
  holdLease,
  inTransaction,
  lockRuns,
  newId,
  readOpenSteps,
  readRunsToDecide,
  sealReadyRuns,
  type CallOutput,
  type CommitReport,
  type Database,
  type DecidedRun,
  type Lease,
  type LeasedTable,
  type NewRun,
  type Tx,
} from '../../src/index.ts';
import { acceptBatch } from '../../src/testing/index.ts';
import { aBatch, anAgent, aRun, createTestAgents } from '../factories.ts';

/*
 * The worker's protocol, act by act, with the real decisions of the core: the flows without a provider and without tools.
 */

export const ALICE = { owner: 'alice', lease_duration_ms: 30_000 };
export const BOB = { owner: 'bob', lease_duration_ms: 30_000 };

/** Removes all work and keeps the agents. Deleting a few rows is ten times faster than truncating their tables. */
export async function clear(db: Database): Promise<void> {
  await sql`
    with d1 as (delete from tool_call), d22 as (delete from tool_call_output), d2 as (delete from message), d3 as (delete from step), d4 as (delete from run_chunk),
         d5 as (delete from result_line), d6 as (delete from doubted_submission), d7 as (delete from provider_batch),
         d8 as (delete from queued_input), d9 as (delete from run), d10 as (delete from batch_tally),
         d11 as (delete from idempotency_key), d12 as (delete from batch), d14 as (delete from cursor_span),
         d15 as (delete from cursor_rewind), d16 as (delete from ended_runs), d17 as (delete from run_failure),
         d18 as (delete from batch_minute), d19 as (delete from unstarted_input), d20 as (delete from batch_retry_run),
         d21 as (delete from batch_label),
         d13 as (update conversation set run_id = null, context_from_seq = 0 where run_id is not null or context_from_seq > 0)
    select 1`.execute(db);
}

export function leaseOf(
  table: LeasedTable,
  row: { readonly id: string; readonly lease_epoch: number },
): Lease {
  return { table, id: row.id, epoch: row.lease_epoch };
}

/** Runs `work` in a transaction with a clock `ms` ahead. */
export function later<T>(db: Database, ms: number, work: (trx: Tx) => Promise<T>): Promise<T> {
  return inTransaction(db, async (trx) => {
    await sql`select set_config('nightshift.now', (clock_timestamp() + ${ms} * interval '1 millisecond')::text, true)`.execute(
      trx,
    );
    return work(trx);
  });
}

/** A promise that a test settles, to make a transaction wait for another. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: () => resolve() };
}

/** Waits until a statement of this database waits for a lock. */
export async function untilLockIsAwaited(db: Database, count = 1): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ waiting: number }>`
      select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
    `.execute(db);
    if ((rows[0]?.waiting ?? 0) >= count) return;
  }
}

export interface Accepted {
  readonly id: string;
  readonly run_ids: readonly string[];
}

/** Builds a batch of the given runs. */
export async function accept(db: Database, runs: readonly NewRun[]): Promise<Accepted> {
  const batch = aBatch(runs);
  const { run_ids } = await inTransaction(db, (trx) => acceptBatch(trx, DEFAULT_PROJECT_ID, batch));
  return { id: batch.id, run_ids };
}

/** Accepts a batch of `count` runs, each of its own agent with a block. */
export async function acceptFleet(
  db: Database,
  count: number,
): Promise<Accepted & { readonly agent_ids: readonly string[] }> {
  const agents = await createTestAgents(db, count);
  const agent_ids = agents.map((agent) => agent.id);
  return {
    ...(await accept(
      db,
      agent_ids.map((id) => aRun(id)),
    )),
    agent_ids,
  };
}

/** Accepts a batch of `count` runs of agents without blocks, which are quick to create. */
export async function acceptBareFleet(
  db: Database,
  count: number,
): Promise<Accepted & { readonly agent_ids: readonly string[] }> {
  const agents = Array.from({ length: count }, () => anAgent());
  await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, agents));
  const accepted = await accept(
    db,
    agents.map((agent) => aRun(agent.id)),
  );
  return { ...accepted, agent_ids: agents.map((agent) => agent.id) };
}

let nonces = 0;
export function newNonce(): string {
  nonces += 1;
  return `n${process.pid.toString(36)}x${nonces.toString(36)}`.padStart(6, '0').slice(0, 16);
}

/** Seals ready runs; returns the provider batch and its number of steps. */
export async function seal(
  db: Database,
  limit = 10_000,
): Promise<{ readonly id: string; readonly count: number }> {
  const id = newId();
  const batch = { id, project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
  const { requests } = await inTransaction(db, (trx) => sealReadyRuns(trx, batch, limit));
  return { id, count: requests };
}

/** Claims a provider batch, which must be in `state`. */
export async function claim(
  db: Database,
  id: string,
  state: Parameters<typeof claimProviderBatch>[2],
  claimant = ALICE,
): Promise<Lease> {
  const row = await claimProviderBatch(db, id, state, claimant);
  if (row === null) throw new Error(`Provider batch ${id} cannot be claimed in ${state}.`);
  return leaseOf('provider_batch', row);
}

/** Claims a provider batch in `building` and writes ahead. */
export async function writeAhead(db: Database, id: string): Promise<Lease> {
  const lease = await claim(db, id, 'building');
  const { request_count } = await db
    .selectFrom('provider_batch')
    .select('request_count')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  await inTransaction(db, (trx) => commitWriteAhead(trx, lease, { request_count, bytes: 100, sha256: 'aa' }));
  return lease;
}

/** Moves a provider batch from `building` to `submitted`. */
export async function submit(db: Database, id: string): Promise<void> {
  const lease = await writeAhead(db, id);
  const remote = { provider_id: `msgbatch_${id}`, expires_at: null };
  await inTransaction(db, (trx) => commitSubmitted(trx, lease, remote, 0));
}

/** Moves a provider batch from `building` to `ended` and claims it for ingest. */
export async function end(db: Database, id: string): Promise<Lease> {
  await submit(db, id);
  const lease = await claim(db, id, 'submitted');
  await inTransaction(db, (trx) =>
    commitPolled(trx, [{ lease, move: 'ended', delay_ms: 0, missing: false }]),
  );
  return claim(db, id, 'ended');
}

/** Seals all ready runs and moves the provider batch to `ended`. */
export async function sealAndEnd(db: Database): Promise<Lease> {
  const { id } = await seal(db);
  return end(db, id);
}

export const USAGE: Usage = {
  input_tokens: 100,
  output_tokens: 10,
  cache_write_5m_tokens: 1,
  cache_write_1h_tokens: 2,
  cache_read_tokens: 3,
};

export function answer(content: readonly ContentBlock[], parts: Partial<StepAnswer> = {}): StepOutcome {
  return {
    kind: 'answered',
    answer: {
      content,
      content_json: JSON.stringify(content),
      stop_reason: content.some((block) => block.type === 'tool_use') ? 'tool_use' : 'end_turn',
      usage: USAGE,
      cost_nanousd: 1_000,
      message_id: 'msg_1',
      model: 'claude-haiku-4-5',
      ...parts,
    },
  };
}

export const DONE = answer([{ type: 'text', text: 'Done.' }]);

/** An answer with tool calls, which are carried out later (`act`). */
export function callsTools(count = 1): StepOutcome {
  return answer(
    Array.from({ length: count }, (_, index) => ({
      type: 'tool_use',
      id: `toolu_${index}`,
      name: 'look',
      input: {},
    })),
  );
}

/** A call of an operator's tool; without an outcome it is pending. */
export function moduleCall(
  index: number,
  tool_use_id: string,
  outcome: StepCall['outcome'] = null,
): StepCall {
  const planned = {
    index,
    tool_use_id,
    tool_name: 'look',
    kind: 'module',
    args: {},
    rejection: null,
    awaits: null,
    prefill_error: null,
    tool: null,
  } as const;
  return { planned, outcome, duration_ms: outcome === null ? 0 : 1 };
}

/** Decides each given run as read; calls stay pending. */
export async function decide(
  db: Database,
  outcomes: ReadonlyMap<string, StepOutcome>,
): Promise<readonly DecidedRun[]> {
  const runs = await readRunsToDecide(db, [...outcomes.keys()]);
  return [...runs.values()].flatMap((run): readonly DecidedRun[] => {
    const outcome = outcomes.get(run.id);
    if (outcome === undefined) return [];
    const key = { run_id: run.id, number: run.step_number, attempt: run.attempt };
    const calls = callsToPlan(run, key, outcome).map((use, index) => moduleCall(index, use.id));
    const decision = decideStep({ run, key, retry: RETRY_POLICY_DEFAULT, calls }, outcome);
    return decision.kind === 'refuse' ? [] : [{ run, decision }];
  });
}

/** Applies an outcome to every open step of a provider batch, or of the given runs; repeats a stale decision. */
export async function ingest(
  db: Database,
  lease: Lease,
  outcome: StepOutcome,
  options: { readonly run_ids?: readonly string[]; readonly slot?: number } = {},
): Promise<CommitReport> {
  const run_ids = options.run_ids ?? (await readOpenSteps(db, lease.id, 20_000)).map((key) => key.run_id);
  const decided = await decide(db, new Map(run_ids.map((id) => [id, outcome])));
  const committing = inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    return commitDecisions(trx, decided, options.slot ?? 0);
  });
  return committing.catch((error: unknown) => {
    if (!isError(error, 'stale')) throw error;
    return ingest(db, lease, outcome, options);
  });
}

/** Carries out the calls of acting runs, each with `result` and `output`, and deletes the chunk. */
export function act(
  db: Database,
  chunk: ToolsChunk,
  result = 'seen',
  output: CallOutput = {},
): Promise<CommitReport> {
  return inTransaction(db, (trx) => actIn(trx, chunk, result, output));
}

interface ToolsChunk {
  readonly id: string;
  readonly run_ids: readonly string[];
  readonly lease_epoch: number;
}

/** Works like {@link act} in an open transaction. */
export async function actIn(
  trx: Tx,
  chunk: ToolsChunk,
  result = 'seen',
  output: CallOutput = {},
): Promise<CommitReport> {
  await holdLease(trx, leaseOf('run_chunk', chunk));
  const runs = await lockRuns(trx, chunk.run_ids);
  const { rows } = await sql<{ run_id: string; call_index: number; tool_use_id: string }>`
      select c.run_id, c.call_index, c.tool_use_id from tool_call c join run r on r.id = c.run_id and r.step_number = c.step_number
       where r.id = any(${chunk.run_ids}::uuid[]) and r.state = 'acting' order by c.call_index
    `.execute(trx);
  const results = [...Map.groupBy(rows, (row) => row.run_id)].flatMap(([runId, calls]) => {
    const run = runs.get(runId);
    if (run === undefined) return [];
    const ended = calls.map((call) => moduleCall(call.call_index, call.tool_use_id, { ok: true, result }));
    const outputs = calls.map(({ call_index }) => ({ call_index, output }));
    return [{ run, decision: decideResults(run, ended), outputs }];
  });
  return commitToolResults(trx, chunk.id, results);
}
