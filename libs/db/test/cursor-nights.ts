import { sql } from 'kysely';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  insertCursorSpans,
  lockConversations,
  newId,
  readCursors,
  type CursorReading,
  type Database,
  type NewAgent,
  type Tx,
} from '../src/index.ts';
import { acceptBatch } from '../src/testing/index.ts';
import { aBatch, aRun } from './factories.ts';

/*
 * Nights under a cursor, with the reads and commits of an accept and SQL in place of the workers.
 */

export const NIGHTLY = 'nightly';

/** Appends messages to an agent's conversation, each as a content or a text. */
export async function say(
  db: Database,
  agent: NewAgent,
  contents: readonly unknown[],
  parts: { readonly role?: string; readonly shown?: boolean; readonly said_at?: string } = {},
): Promise<void> {
  await inTransaction(db, async (trx) => {
    await lockConversations(trx, [agent.conversation_id]);
    await sayIn(trx, agent, contents, parts);
  });
}

/** Works like {@link say} in a transaction that holds the conversation. */
export async function sayIn(
  trx: Tx,
  agent: NewAgent,
  contents: readonly unknown[],
  parts: { readonly role?: string; readonly shown?: boolean; readonly said_at?: string } = {},
): Promise<void> {
  for (const content of contents) {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    await sql`
      insert into message (project_id, conversation_id, seq, role, content, shown, said_at)
      select ${DEFAULT_PROJECT_ID}::uuid, ${agent.conversation_id}::uuid, coalesce(max(seq), 0) + 1, ${parts.role ?? 'user'},
             ${JSON.stringify(blocks)}::json, ${parts.shown ?? true}, ${parts.said_at ?? null}::timestamptz
        from message where conversation_id = ${agent.conversation_id}::uuid
    `.execute(trx);
  }
}

export async function read(
  db: Database,
  agent: NewAgent,
  bounds: Parameters<typeof readCursors>[4] = {},
): Promise<CursorReading> {
  const { readings } = await readCursors(db, DEFAULT_PROJECT_ID, NIGHTLY, [agent.id], bounds);
  const reading = readings.get(agent.id);
  if (reading === undefined) throw new Error('There is no such agent.');
  return reading;
}

/** Returns the texts that are new, or the reason of the skip. */
export async function newTexts(db: Database, agent: NewAgent): Promise<readonly string[] | string> {
  const { skip, messages } = await read(db, agent);
  return skip ?? messages.map(({ text }) => text);
}

export interface Night {
  readonly batch_id: string;
  /** The runs of the agent's parts, in order. */
  readonly run_ids: readonly string[];
}

interface NightOptions {
  readonly apply?: 'auto' | 'review';
  /** Ends of the parts. Default: all that is new in one part. */
  readonly to_seqs?: readonly number[];
}

/** Accepts a batch under the cursor; null for a skipped agent. */
export function accept(db: Database, agent: NewAgent, options: NightOptions = {}): Promise<Night | null> {
  return inTransaction(db, async (trx) => {
    await lockConversations(trx, [agent.conversation_id]);
    return acceptIn(trx, agent, options);
  });
}

/** Works like {@link accept} in a transaction that holds the conversation. */
export async function acceptIn(
  trx: Tx,
  agent: NewAgent,
  { apply = 'auto', to_seqs }: NightOptions = {},
): Promise<Night | null> {
  const reading = await read(trx, agent);
  if (reading.skip !== null) return null;
  const ends = to_seqs ?? [reading.to_seq];
  const batch = aBatch(
    ends.map(() => ({ ...aRun(agent.id), isolated: true })),
    { apply },
  );
  const { run_ids } = await acceptBatch(trx, DEFAULT_PROJECT_ID, batch);
  const spans = ends.map((to_seq, part) => ({
    run_id: run_ids[part]!,
    agent_id: agent.id,
    from_seq: ends[part - 1] ?? reading.position,
    to_seq,
    top_seq: reading.top_seq,
  }));
  await insertCursorSpans(trx, DEFAULT_PROJECT_ID, NIGHTLY, batch.id, spans);
  return { batch_id: batch.id, run_ids };
}

/** Ends the runs of a night, each with its reason, and the batch once all have ended. */
export async function end(
  db: Database,
  night: Night,
  reasons: readonly (string | null)[] = ['end_turn'],
): Promise<void> {
  for (const [part, reason] of reasons.entries()) {
    if (reason === null) continue;
    const state = reason === 'cancelled' ? 'cancelled' : reason === 'provider_error' ? 'failed' : 'completed';
    await sql`
      with ended as (
        update run set state = ${state}, stop_reason = ${reason}, ended_at = app_now(), error = ${state === 'failed' ? '{}' : null}::json
         where id = ${night.run_ids[part]}::uuid
        returning conversation_id)
      update conversation set run_id = null where id in (select conversation_id from ended)
    `.execute(db);
  }
  await sql`
    update batch set state = 'completed', completed_at = app_now()
     where id = ${night.batch_id}::uuid and not exists (select from run where batch_id = batch.id and ended_at is null)
  `.execute(db);
}

/** Runs a whole night that ends like this. */
export async function night(
  db: Database,
  agent: NewAgent,
  reason = 'end_turn',
  options: NightOptions = {},
): Promise<Night> {
  const accepted = await accept(db, agent, options);
  if (accepted === null) throw new Error('The agent was skipped.');
  await end(db, accepted, [reason]);
  return accepted;
}

/** Holds a change to each of the agent's named new blocks. Returns the blocks. */
export async function hold(
  db: Database,
  agent: NewAgent,
  { batch_id, run_ids }: Night,
  labels: readonly string[],
): Promise<readonly string[]> {
  return Promise.all(
    labels.map(async (label) => {
      const [block, draft] = [newId(), newId()];
      await sql`
        with b as (
          insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
          values (${block}, ${DEFAULT_PROJECT_ID}, ${label}, 1, null, null),
                 (${draft}, ${DEFAULT_PROJECT_ID}, ${label}, 2, app_now(), ${batch_id})),
        n as (
          insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                      step_number, tool_use_id, resolution)
          values (${block}::uuid, 1, ${DEFAULT_PROJECT_ID}::uuid, 'old', 100, false, null::int, null::uuid, null::uuid, null::int,
                  null, null),
                 (${draft}, 1, ${DEFAULT_PROJECT_ID}, 'old', 100, false, null, null, null, null, null, null),
                 (${draft}, 2, ${DEFAULT_PROJECT_ID}, 'new', 100, false, 1, ${batch_id}, ${run_ids[0]}, 1, 'toolu_1', 'clean')),
        k as (
          insert into agent_block (agent_id, block_id, label, project_id, position)
          values (${agent.id}, ${block}, ${label}, ${DEFAULT_PROJECT_ID}, 9))
        insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id,
                                 step_number, tool_use_id)
        values (${batch_id}, ${agent.id}, ${block}, ${DEFAULT_PROJECT_ID}, ${draft}, 'revised', 1, ${label}, ${run_ids[0]}, 1,
                'toolu_1')
      `.execute(db);
      return block;
    }),
  );
}

/** Holds a passage of the agent. */
export async function holdPassage(
  db: Database,
  agent: NewAgent,
  { batch_id, run_ids }: Night,
): Promise<void> {
  await sql`
    insert into passage (id, project_id, agent_id, content, words, batch_id, run_id, step_number, tool_use_id, held_by_batch_id)
    values (${newId()}, ${DEFAULT_PROJECT_ID}, ${agent.id}, 'fact', to_tsvector('fact'), ${batch_id}, ${run_ids[0]}, 1, 'toolu_2',
            ${batch_id})
  `.execute(db);
}
