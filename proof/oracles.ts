/** Compares the tables at the end of a seed with the outside: scripts, memory, the provider's ledger. */
import { fromCustomId, CRASHES_MAX } from '../libs/agent-core/src/index.ts';
import type { Violation } from './invariants.ts';
import { NIGHT_CHECKS } from './nights.ts';
import type { Provider } from './provider.ts';
import type { Ledger, Trouble } from './provider-ledger.ts';
import type { SqlConnection } from './sim-pool.ts';
import { ARCHIVE_TOOL, PLAIN_AGENT, PLAIN_BATCH, type AgentTraits } from './traits.ts';
import type { PlannedBatch, PlannedRun, Workload } from './workload.ts';

/** Names of these checks and of the simulation's own. */
export const ORACLES: readonly string[] = [
  'paid_twice',
  'nonce_sent_twice',
  'mixed_nonces',
  'custom_id_twice',
  'broken_transcript',
  'request_changed',
  'once_tool_ran_twice',
  'tool_key_reused',
  'tool_key_renewed',
  'orphaned_batch',
  'answer_lost',
  'cost_not_booked',
  'sent_against_console',
  'ended_without_cause',
  'script_followed',
  'memory_once',
  'callback_lost',
  ...NIGHT_CHECKS,
  'flow_failed',
  'transaction_waits',
  'nothing_left_to_do',
  'not_finished',
  'unhandled_rejection',
  'simulator_failed',
];

/** Finds accepted provider batches that their lines could identify and that no row names. */
export async function findOrphans(
  connection: SqlConnection,
  provider: Provider,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(
    'select provider_id from provider_batch where provider_id is not null',
  );
  const known = new Set((rows as { provider_id: string }[]).map((row) => row.provider_id));
  return [...provider.batches.values()]
    .filter((batch) => !batch.foreign && !batch.forgotten && !batch.hasNoLines && !known.has(batch.id))
    .map((batch) => ({
      name: 'orphaned_batch',
      detail: `${batch.id} with ${batch.items.length}: ${batch.items[0]?.custom_id ?? ''}`,
    }));
}

/** Finds billed, readable answers that were not applied, and whose step did not end as poison or unusable. */
export async function findLostAnswers(
  connection: SqlConnection,
  ledger: Ledger,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(
    `select run_id || '/' || number as step from step where applied_at is not null or error->>'type' in ('poison', 'unusable')`,
  );
  const applied = new Set((rows as { step: string }[]).map(({ step }) => step));
  return ledger
    .answered()
    .filter((step) => !applied.has(step))
    .map((step) => ({
      name: 'answer_lost',
      detail: `step ${step} was answered, and its answer not applied`,
    }));
}

/** Finds delivered usage that is not booked with its step. Steps of orphaned batches are left out. */
export async function findUnbooked(connection: SqlConnection, ledger: Ledger): Promise<readonly Violation[]> {
  const { rows } = await connection.query(
    `select p.provider_id || '/' || s.run_id || '/' || s.number || '/' || s.attempt as step, s.input_tokens, s.output_tokens
       from step s join provider_batch p on p.id = s.provider_batch_id where p.state = 'ingested'`,
  );
  type Booked = { readonly step: string; readonly input_tokens: number; readonly output_tokens: number };
  const booked = new Map((rows as Booked[]).map((row) => [row.step, row]));
  return ledger.deliveries().flatMap(({ custom_id, batch_id, usage }): readonly Violation[] => {
    const key = fromCustomId(custom_id)?.key;
    const step = booked.get(`${batch_id}/${key?.run_id}/${key?.number}/${key?.attempt}`);
    if (step === undefined) return [];
    if (step.input_tokens === usage.input_tokens && step.output_tokens === usage.output_tokens) return [];
    const found = `${step.input_tokens} and ${step.output_tokens} tokens`;
    return [
      {
        name: 'cost_not_booked',
        detail: `${custom_id}: ${found} instead of ${usage.input_tokens} and ${usage.output_tokens}`,
      },
    ];
  });
}

interface EndedRun {
  readonly id: string;
  readonly custom_id: string;
  readonly stop_reason: string;
  readonly texts: readonly string[];
  /** A tool rule may demand a call beyond the script. */
  readonly owes_calls: boolean;
}

/** An ended run with its plan and the provider's troubles. */
interface EndedPlan {
  readonly row: EndedRun;
  readonly run: PlannedRun;
  readonly batch: PlannedBatch;
  readonly agent: AgentTraits;
  readonly troubles: ReadonlySet<Trouble>;
  /** Whether enough workers were lost to explain every poisoned run. */
  readonly mayBePoison: boolean;
}

const troubled =
  (...causes: readonly Trouble[]) =>
  ({ troubles }: EndedPlan): boolean =>
    causes.some((cause) => troubles.has(cause));

/** Required cause of each stop reason; a reason without an entry never has a cause in a simulation. */
const CAUSES: Readonly<Record<string, (ended: EndedPlan) => boolean>> = {
  end_turn: () => true,
  tool_rule: ({ agent }) => agent.rules.some(({ type }) => type === 'exit_loop'),
  max_steps: ({ row, run }) => row.texts.length === run.max_steps,
  max_tokens: ({ run }) => run.turns.some(({ cut }) => cut === true),
  refusal: ({ run }) => run.turns.some(({ stop }) => stop === 'refusal'),
  budget_exceeded: ({ batch }) => (batch.traits ?? PLAIN_BATCH).runCap !== null,
  cancelled: ({ batch }) => batch.cancelAfterMs !== null,
  context_overflow: troubled('too_long'),
  invalid_request: troubled('permanent', 'refused'),
  unusable_answer: troubled('unusable'),
  provider_error: troubled('errored', 'unreadable', 'garbled', 'no line', 'forgotten'),
  expired: troubled('expired'),
  poison: ({ mayBePoison }) => mayBePoison,
};

/**
 * Finds runs that ended without a cause or left their script. `workersLost`: number of deaths and pauses of
 * workers.
 */
export async function findStrays(
  connection: SqlConnection,
  { batches, agentTraits = [] }: Workload,
  ledger: Ledger,
  workersLost: number,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(`
    select r.id, r.custom_id, r.stop_reason,
           exists (select from definition d cross join lateral json_array_elements(d.tool_rules) u
                    where d.id = r.definition_id and u->>'type' in ('required_before_exit', 'run_first', 'constrain_child_tools')) as owes_calls,
           (select coalesce(json_agg(m.content->0->>'text' order by m.seq), '[]') from message m
             where m.conversation_id = r.conversation_id and m.run_id = r.id and m.role = 'assistant') as texts
      from run r where r.ended_at is not null`);
  const ended = new Map((rows as EndedRun[]).map((row) => [row.custom_id, row]));
  const poisoned = [...ended.values()].filter((row) => row.stop_reason === 'poison').length;
  const mayBePoison = poisoned * CRASHES_MAX <= workersLost;
  return batches
    .flatMap((batch) => batch.runs.map((run) => ({ batch, run })))
    .flatMap(({ batch, run }): readonly Violation[] => {
      const row = ended.get(run.name);
      if (row === undefined) return [{ name: 'script_followed', detail: `${run.name} is nowhere` }];
      const agent = agentTraits[run.agent] ?? PLAIN_AGENT;
      const plan = { row, run, batch, agent, troubles: ledger.troublesOf(row.id), mayBePoison };
      const detail = `${run.name} (${row.stop_reason}): ${row.texts.join(' | ')}`;
      return [
        ...(CAUSES[row.stop_reason]?.(plan) === true ? [] : [{ name: 'ended_without_cause', detail }]),
        ...(playsItsScript(row, run) ? [] : [{ name: 'script_followed', detail }]),
      ];
    });
}

function playsItsScript(row: EndedRun, run: PlannedRun): boolean {
  const script = [...run.turns.map((turn) => turn.text ?? ''), `${run.name} turn ${run.turns.length}`];
  // When a rule demands another call, the model answers beyond its script.
  const scriptAt = (index: number): string => script[index] ?? `${run.name} turn ${index}`;
  const isPrefix = row.texts.every((text, index) => text === scriptAt(index));
  const isWhole =
    row.stop_reason !== 'end_turn' ||
    row.texts.length === script.length ||
    (row.owes_calls && row.texts.length > script.length);
  return isPrefix && isWhole;
}

/** Finds memory writes that are missing or doubled, and held writes in force before they were accepted. */
export async function findMemoryFaults(
  connection: SqlConnection,
  batches: readonly PlannedBatch[],
): Promise<readonly Violation[]> {
  const accepted = batches.filter(({ traits }) => traits?.accepted === true).flatMap(({ runs }) => runs);
  const { rows } = await connection.query(
    `
    select t.token || ' occurs ' || t.times as detail from (
      select e.value->'input'->>'content' as token, m.times,
             b.apply = 'auto' or case c.tool_name when '${ARCHIVE_TOOL}' then r.custom_id = any($1::text[]) else h.state = 'accepted' end as in_force
        from tool_call c
        join run r on r.id = c.run_id
        join batch b on b.id = r.batch_id
        join message a on a.conversation_id = r.conversation_id and a.run_id = r.id and a.step_number = c.step_number and a.role = 'assistant'
       cross join lateral json_array_elements(a.content) e(value)
       cross join lateral (
          select case c.tool_name
                   when '${ARCHIVE_TOOL}' then (
                     select count(*) from passage p where p.agent_id = r.agent_id and p.held_by_batch_id is null
                        and p.content = e.value->'input'->>'content')
                   else (
                     select (length(v.value) - length(replace(v.value, e.value->'input'->>'content', ''))) / length(e.value->'input'->>'content')
                       from agent_block ab join block k on k.id = ab.block_id
                       join block_revision v on v.block_id = k.id and v.revision = k.head_revision where ab.agent_id = r.agent_id)
                 end as times) m
        left join held_change h on h.batch_id = b.id and h.agent_id = r.agent_id
       where c.kind = 'memory' and c.state = 'succeeded' and e.value->>'id' = c.tool_use_id) t
     where t.times <> case when t.in_force then 1 else 0 end`,
    [accepted.map(({ name }) => name)],
  );
  return (rows as { detail: string }[]).map(({ detail }) => ({ name: 'memory_once', detail }));
}

/** Finds callbacks that were owed and not received, or given up. */
export async function findLostCallbacks(
  connection: SqlConnection,
  received: ReadonlyMap<string, number>,
): Promise<readonly Violation[]> {
  const { rows } = await connection.query(
    `select id, callback_sent_at is null and next_due_at is null as given_up
       from batch where callback_url is not null and completed_at is not null`,
  );
  const { rows: events } = await connection.query(
    `select format('event-%s-%s', xid, id) as id, sent_at is null and next_due_at is null as given_up from callback_event`,
  );
  const owed = [
    ...(rows as { id: string; given_up: boolean }[]).map((row) => ({ ...row, id: `job-${row.id}` })),
    ...(events as { id: string; given_up: boolean }[]),
  ];
  return owed
    .filter(({ id, given_up }) => given_up || !received.has(id))
    .map(({ id, given_up }) => ({
      name: 'callback_lost',
      detail: `${id} ${given_up ? 'given up' : 'not received'}`,
    }));
}
