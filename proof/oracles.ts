/** Checks at the end of a seed that compare our tables with what the outside saw: scripts, memory, the provider's books. */
import type { Violation } from './invariants.ts';
import type { Provider } from './provider.ts';
import type { SqlConnection } from './sim-pool.ts';
import type { PlannedBatch } from './workload.ts';

/** Names of these checks, for listings. */
export const ORACLES: readonly string[] = [
  'paid_twice',
  'nonce_sent_twice',
  'mixed_nonces',
  'custom_id_twice',
  'broken_transcript',
  'once_tool_ran_twice',
  'tool_key_reused',
  'orphaned_batch',
  'script_followed',
  'memory_once',
  'callback_lost',
];

/** Batches that the provider has accepted from us and no row of ours names. */
export async function findOrphans(
  connection: SqlConnection,
  provider: Provider,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(
    'select provider_id from provider_batch where provider_id is not null',
  );
  const known = new Set((rows as { provider_id: string }[]).map((row) => row.provider_id));
  return [...provider.batches.values()]
    .filter((batch) => !batch.foreign && !batch.forgotten && !known.has(batch.id))
    .map((batch) => ({
      name: 'orphaned_batch',
      detail: `${batch.id} with ${batch.items.length}: ${batch.items[0]?.custom_id ?? ''}`,
    }));
}

interface EndedRun {
  readonly custom_id: string;
  readonly stop_reason: string;
  readonly texts: readonly string[];
}

/** Every run has played its own script, in order, each answer once, up to where it ended. */
export async function findStrays(
  connection: SqlConnection,
  batches: readonly PlannedBatch[],
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(`
    select r.custom_id, r.stop_reason,
           (select coalesce(json_agg(m.content->0->>'text' order by m.seq), '[]') from message m
             where m.conversation_id = r.conversation_id and m.run_id = r.id and m.role = 'assistant') as texts
      from run r where r.ended_at is not null`);
  const ended = new Map((rows as EndedRun[]).map((row) => [row.custom_id, row]));
  return batches
    .flatMap((batch) => batch.runs)
    .flatMap((run) => {
      const row = ended.get(run.name);
      if (row === undefined) return [];
      const script = [...run.turns.map((turn) => turn.text ?? ''), `${run.name} turn ${run.turns.length}`];
      const isPrefix = row.texts.every((text, index) => text === script[index]);
      const isWhole = row.stop_reason !== 'end_turn' || row.texts.length === script.length;
      if (isPrefix && isWhole) return [];
      return [
        { name: 'script_followed', detail: `${run.name} (${row.stop_reason}): ${row.texts.join(' | ')}` },
      ];
    });
}

/** Every write to memory that a run was told of stands there, once. */
export async function findMemoryFaults(connection: SqlConnection): Promise<readonly Violation[]> {
  const { rows } = await connection.query(`
    select t.token || ' occurs ' || t.times as detail from (
      select e.value->'input'->>'content' as token,
             (select (length(v.value) - length(replace(v.value, e.value->'input'->>'content', ''))) / length(e.value->'input'->>'content')
                from agent_block ab join block b on b.id = ab.block_id
                join block_revision v on v.block_id = b.id and v.revision = b.head_revision where ab.agent_id = r.agent_id) as times
        from tool_call c
        join run r on r.id = c.run_id
        join message m on m.conversation_id = r.conversation_id and m.run_id = r.id and m.step_number = c.step_number and m.role = 'assistant'
       cross join lateral json_array_elements(m.content) e(value)
       where c.kind = 'memory' and c.state = 'succeeded' and e.value->>'id' = c.tool_use_id) t
     where t.times <> 1`);
  return (rows as { detail: string }[]).map(({ detail }) => ({ name: 'memory_once', detail }));
}

/** A callback that counts as delivered was received. */
export async function findLostCallbacks(
  connection: SqlConnection,
  received: ReadonlyMap<string, number>,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query('select id from batch where callback_sent_at is not null');
  return (rows as { id: string }[])
    .filter(({ id }) => !received.has(`job-${id}`))
    .map(({ id }) => ({ name: 'callback_lost', detail: id }));
}
