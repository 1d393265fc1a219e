import { sql } from 'kysely';
import { newConversationId, newRunId, type Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { shareLockAgents } from '../../locks/catalog/lock-agent.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';
import type { RequestedDefinition, RunAgent } from '../../reads/catalog/agent-definitions.ts';
import { uuidArray } from '../../uuid-array.ts';
import { insertAccepted, type PlannedRun } from './accepted-rows.ts';
import type { NewBatch, NewRun } from './new-batch.ts';
import { storeDefinitions } from './store-definitions.ts';

/** The result of an accept. */
export interface AcceptedBatch {
  /** Ids of the runs, in request order. */
  readonly run_ids: readonly string[];
  readonly ready: number;
  readonly queued: number;
}

/**
 * Stores a batch with its runs; requested definitions and agents come in request order.
 * The first run of every free conversation starts (`ready`, its input appended to the conversation). The others wait
 * (`queued`, their input in `queued_input` as rows `{role, content, otid, name}` with storable content).
 * Locks: the agents of isolated runs, then the conversations of the other runs, each in id order. Until the commit no agent
 * is deleted and no conversation changes its holder.
 * Statements: about ten for up to 5,000 runs, and five more per further 5,000.
 * Order: run ids ascend in request order and share the `created_at` of their batch. So `(created_at, id)` is the order of
 * turns in a conversation, and open runs are found at the ages of open batches.
 * Returns null, with only definitions inserted, if an agent was changed or deleted since the read: read and plan again.
 */
export async function commitBatch(
  trx: Tx,
  projectId: string,
  batch: NewBatch,
  requests: readonly RequestedDefinition[],
  agents: readonly RunAgent[],
): Promise<AcceptedBatch | null> {
  const placed = await placeRuns(trx, projectId, batch.runs, requests, agents);
  if (placed === null) return null;
  const { plan, now } = placed;
  await insertAccepted(trx, projectId, batch, plan, now);
  const ready = plan.filter((run) => run.first_seq !== null).length;
  return { run_ids: plan.map((run) => run.id), ready, queued: plan.length - ready };
}

/** Runs with their ids and their places in conversations, and the database's time as text. */
export interface PlacedRuns {
  readonly plan: readonly PlannedRun[];
  readonly now: string;
}

/** The runs of the batch that are stored already. */
export interface StoredBefore {
  readonly runs: number;
  readonly last_run_id: string | null;
}

/**
 * Locks the conversations and agents of new runs, stores their definitions, and gives each run its id and its place.
 * Returns null if an agent was changed or deleted since the read.
 * Locks: as {@link commitBatch}.
 */
export async function placeRuns(
  trx: Tx,
  projectId: string,
  runs: readonly NewRun[],
  requests: readonly RequestedDefinition[],
  agents: readonly RunAgent[],
  before: StoredBefore = { runs: 0, last_run_id: null },
): Promise<PlacedRuns | null> {
  const shared = new Set(
    agents.filter((_, place) => runs[place]?.isolated !== true).map((agent) => agent.conversation_id),
  );
  await shareLockAgents(trx, [
    ...new Set(runs.flatMap(({ isolated, agent_id }) => (isolated ? [agent_id] : []))),
  ]);
  await lockConversations(trx, [...shared]);
  const agentIds = [...new Set(requests.map((request) => request.agent_id))];
  const { now, conversations, is_agent_deleted } = await readStates(trx, [...shared], agentIds);
  if (is_agent_deleted || !(await storeDefinitions(trx, projectId, definitionsToStore(requests, agents))))
    return null;
  return { plan: planRuns(runs, agents, conversations, before), now };
}

/** Definitions without a row, by id, each with one request for it. */
function definitionsToStore(
  requests: readonly RequestedDefinition[],
  agents: readonly RunAgent[],
): ReadonlyMap<string, RequestedDefinition> {
  const fresh = new Map<string, RequestedDefinition>();
  for (const [ordinal, { definition_id, is_stored }] of agents.entries()) {
    const request = requests[ordinal];
    if (!is_stored && request !== undefined && !fresh.has(definition_id)) fresh.set(definition_id, request);
  }
  return fresh;
}

interface ConversationState {
  readonly last_seq: number;
  /** A run holds it or waits for it. */
  readonly taken: boolean;
}

const EMPTY_AND_FREE: ConversationState = { last_seq: 0, taken: false };

interface States {
  /** The database's time, as text because a Date would lose its microseconds. */
  readonly now: string;
  readonly conversations: ReadonlyMap<string, ConversationState>;
  /** An agent was deleted during the wait for the locks. */
  readonly is_agent_deleted: boolean;
}

/**
 * Reads the conversations that hold messages or are taken; all others are empty and free.
 * Sent as lists, because one row per agent of a fleet would double the cost.
 * Index: `run_queued`, primary keys of `conversation`, `message` and `agent`.
 */
async function readStates(
  trx: Tx,
  conversationIds: readonly string[],
  agentIds: readonly string[],
): Promise<States> {
  const { rows } = await sql<{
    now: string;
    is_agent_deleted: boolean;
    ids: string | null;
    last_seqs: string | null;
    taken: string | null;
  }>`
    with state ${AS_FIRST} (
      select c.id,
        coalesce((select m.seq from message m where m.conversation_id = c.id order by m.seq desc limit 1), 0) as last_seq,
        c.run_id is not null or exists (
          select from run r where r.conversation_id = c.id and r.started_at is null and r.ended_at is null) as taken
      from conversation c where c.id = any(${uuidArray(conversationIds)}::uuid[])
    )
    select app_now()::text as now,
      exists (select from agent a
        where a.id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[]) and a.deleted_at is not null) as is_agent_deleted,
      string_agg(id::text, ',') as ids, string_agg(last_seq::text, ',') as last_seqs,
      string_agg(taken::text, ',') as taken
    from state where last_seq > 0 or taken
  `.execute(trx);
  const [lists] = rows;
  if (lists === undefined) throw new Error('The database returned no row for its clock.');
  const conversations = new Map<string, ConversationState>();
  const lastSeqs = lists.last_seqs?.split(',') ?? [];
  const taken = lists.taken?.split(',') ?? [];
  for (const [index, id] of (lists.ids?.split(',') ?? []).entries()) {
    conversations.set(id, { last_seq: Number(lastSeqs[index]), taken: taken[index] === 'true' });
  }
  return { now: lists.now, conversations, is_agent_deleted: lists.is_agent_deleted };
}

function planRuns(
  runs: readonly NewRun[],
  agents: readonly RunAgent[],
  conversations: ReadonlyMap<string, ConversationState>,
  before: StoredBefore,
): readonly PlannedRun[] {
  const ids = ascendingRunIds(runs.length, before.last_run_id);
  const started = new Set<string>();
  const isolatedIds = isolatedConversations(runs);
  return ids.map((id, place) => {
    const request = runs[place] as NewRun;
    const agent = agents[place] as RunAgent;
    const conversation_id = isolatedIds[place] ?? agent.conversation_id;
    const state = conversations.get(conversation_id) ?? EMPTY_AND_FREE;
    const starts = !state.taken && !started.has(conversation_id);
    started.add(conversation_id);
    return {
      id,
      request,
      conversation_id,
      definition_id: agent.definition_id,
      ordinal: before.runs + place,
      first_seq: starts ? state.last_seq + 1 : null,
      last_seq: starts ? state.last_seq + request.messages.length : null,
    };
  });
}

/** Creates ascending run ids, all above `after`. */
function ascendingRunIds(count: number, after: string | null): readonly string[] {
  const ids = distinctSorted(newRunId, count);
  const [first] = ids;
  if (after === null || first === undefined || first > after) return ids;
  // The worker of the last portion had a clock ahead of this one's: its next millisecond takes the place of the time.
  const timeHex = (parseInt(after.slice(0, 13).replace('-', ''), 16) + 1).toString(16).padStart(12, '0');
  const time = `${timeHex.slice(0, 8)}-${timeHex.slice(8)}`;
  return distinctSorted(() => time + newRunId().slice(13), count);
}

/**
 * Creates the conversations of isolated runs, one for each sequence; null for the others.
 * Throws: for a sequence whose runs do not stand side by side, or that is not of one agent's isolated runs.
 */
function isolatedConversations(runs: readonly NewRun[]): readonly (string | null)[] {
  const ids: (string | null)[] = [];
  const known = new Set<string>();
  for (const [ordinal, { isolated, sequence, agent_id }] of runs.entries()) {
    const before = ordinal === 0 ? undefined : runs[ordinal - 1];
    const continues = sequence != null && before?.sequence === sequence;
    if (sequence != null && (!isolated || (continues ? before.agent_id !== agent_id : known.has(sequence))))
      throw new Error(
        `The runs of the sequence ${sequence} are not isolated runs of one agent, side by side.`,
      );
    if (sequence != null) known.add(sequence);
    ids.push(continues ? (ids[ordinal - 1] ?? null) : isolated ? newConversationId() : null);
  }
  return ids;
}

/** Creates distinct ids and sorts them: ids of one millisecond are random, and they must ascend with the runs. */
function distinctSorted(make: () => string, count: number): readonly string[] {
  const ids = new Set<string>();
  while (ids.size < count) ids.add(make());
  return [...ids].sort();
}
