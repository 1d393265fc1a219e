/** Nights of a seed: messages that users append, fleets under a cursor, and the check that each message is read once. */
import { appendMessages, DEFAULT_PROJECT_ID, inTransaction, type Database } from '../libs/db/src/index.ts';
import type { BatchRequest } from '../libs/intake/src/index.ts';
import { storeBody } from '../libs/intake/src/testing.ts';
import type { Violation } from './invariants.ts';
import { scriptText, type Turn } from './model.ts';
import type { PilotSettings } from '../libs/agent-core/src/index.ts';
import type { Random } from './random.ts';
import type { SqlConnection } from './sim-pool.ts';
import { drawPilot } from './traits.ts';

/** Messages of one request. */
export interface PlannedAppend {
  readonly atMs: number;
  /** Index of the agent. */
  readonly agent: number;
  /** Texts of the messages, which are their `otid`s too. */
  readonly texts: readonly string[];
  /** Milliseconds after which its reply counts as lost and it is sent again; null for never. */
  readonly repeatAfterMs: number | null;
}

/** A fleet of all agents under a cursor. */
export interface PlannedNight {
  readonly name: string;
  readonly atMs: number;
  readonly kind: 'fleet' | 'memory_rewrite';
  /** Whether its held changes are accepted; null: changes are in force at once. */
  readonly accepted: boolean | null;
  readonly cancelAfterMs: number | null;
  /** Default: none. */
  readonly pilot?: PilotSettings | null;
}

export interface Nights {
  readonly appends: readonly PlannedAppend[];
  readonly nights: readonly PlannedNight[];
}

export const NO_NIGHTS: Nights = { appends: [], nights: [] };

/** Names of these checks. */
export const NIGHT_CHECKS: readonly string[] = ['message_appended_once', 'message_read_once'];

/** Rewrites and fleets have cursors of their own. */
const CURSORS = { fleet: 'night', memory_rewrite: 'memory_rewrite' } as const;
const WITHIN_MS = 60_000;

/** Draws a seed's nights; half of the seeds have none. */
export function drawNights(random: Random, agents: number): Nights {
  if (random.chance(0.5)) return NO_NIGHTS;
  const pilots = random.fork('pilots');
  return {
    appends: Array.from({ length: random.int(2, 8) }, (_, index) => ({
      atMs: random.int(0, WITHIN_MS),
      agent: random.int(0, agents - 1),
      texts: Array.from({ length: random.int(1, 3) }, (__, place) => `said ${index}.${place}.`),
      repeatAfterMs: random.chance(0.3) ? random.int(0, 20_000) : null,
    })),
    nights: Array.from({ length: random.int(1, 4) }, (_, index) => ({
      name: `n${index}`,
      atMs: random.int(0, WITHIN_MS),
      kind: random.chance(0.7) ? 'fleet' : 'memory_rewrite',
      accepted: random.chance(0.4) ? random.chance(0.6) : null,
      cancelAfterMs: random.chance(0.2) ? random.int(0, 10_000) : null,
      pilot: drawPilot(pilots),
    })),
  };
}

/** Returns the last nights of a seed, which read all that is left, and the messages that wake failing cursors. */
export function lastNights({ nights }: Nights, agents: number, round: number): Nights {
  const kinds = [...new Set(nights.map(({ kind }) => kind))];
  const all = Array.from({ length: agents }, (_, agent) => agent);
  return {
    appends: all.map((agent) => ({
      ...{ atMs: 0, agent, repeatAfterMs: null },
      texts: [`said at last ${round}.${agent}.`],
    })),
    nights: kinds.map((kind) => ({
      ...{ name: `last ${round}`, kind, atMs: 10_000 },
      ...{ accepted: null, cancelAfterMs: null },
    })),
  };
}

/** Appends messages as the API does. */
export async function storeAppend(
  db: Database,
  agentIds: readonly string[],
  { agent, texts }: PlannedAppend,
): Promise<void> {
  const messages = texts.map((text) => ({
    ...({ role: 'user', otid: text, name: null, said_at: null } as const),
    content: [{ type: 'text', text }],
  }));
  const items = [{ agent_id: agentIds[agent] ?? '', path: '', messages }];
  await inTransaction(db, (trx) => appendMessages(trx, DEFAULT_PROJECT_ID, items));
}

/** Stores a night as the API does and returns the id of its batch. */
export const storeNight = (db: Database, night: PlannedNight): Promise<string> =>
  storeBody(db, bodyOf(night));

function bodyOf({ name, kind, accepted, pilot = null }: PlannedNight): BatchRequest {
  const apply = accepted === null ? 'auto' : 'review';
  const shared = { agents: {}, cursor: CURSORS[kind], apply, pilot } as const;
  if (kind === 'memory_rewrite') return { ...shared, kind, blocks: ['notes'] };
  const token = `<${name} {{ agent.name }}>`;
  const turns: readonly Turn[] = [
    { text: name, calls: [{ tool: 'core_memory_append', args: { label: 'notes', content: token } }] },
  ];
  return { ...shared, input: `${scriptText(name, turns)}\n{{ new_messages_text }}` };
}

/**
 * Finds appended messages that are stored more or less than once, or that no run, or several, read to its end with its
 * changes in force. It reads the inputs of runs, not the spans that the product goes by.
 */
export async function findNightFaults(
  connection: SqlConnection,
  planned: readonly Nights[],
): Promise<readonly Violation[]> {
  const texts = planned.flatMap(({ appends }) => appends.flatMap((append) => append.texts));
  const cursors = [...new Set(planned.flatMap(({ nights }) => nights.map(({ kind }) => CURSORS[kind])))];
  const { rows } = await connection.query(
    `select t.text, u.name, stored.count as stored, read.count as read, given.ends
       from unnest($1::text[]) as t(text)
      cross join unnest($2::text[]) as u(name)
      cross join lateral (
        select (select count(*) from message where run_id is null and otid = t.text)::int
               + (select count(*) from waiting_message where otid = t.text)::int * 100 as count) stored
      cross join lateral (
        select count(distinct r.id)::int as count
          from batch b
          join run r on r.batch_id = b.id and r.stop_reason in ('end_turn', 'tool_rule')
          join message i on i.conversation_id = r.conversation_id and i.run_id = r.id and i.seq = r.first_seq
         where b.source->>'cursor' = u.name and position(t.text in i.content::text) > 0
           and (b.apply = 'auto'
                or not exists (select from held_change h where h.batch_id = b.id and h.agent_id = r.agent_id)
                or exists (select from held_change h where h.batch_id = b.id and h.agent_id = r.agent_id and h.state = 'accepted'))) read
      cross join lateral (
        -- For the report: the ends of all runs that were given the message.
        select string_agg(r.state || ' ' || coalesce(r.stop_reason, '-') || ' ' || coalesce(r.error::text, ''), ', ' order by r.id) as ends
          from batch b join run r on r.batch_id = b.id
          join message i on i.conversation_id = r.conversation_id and i.run_id = r.id and i.seq = r.first_seq
         where b.source->>'cursor' = u.name and position(t.text in i.content::text) > 0) given`,
    [texts, cursors],
  );
  type Found = {
    readonly text: string;
    readonly name: string;
    readonly stored: number;
    readonly read: number;
    readonly ends: string | null;
  };
  return (rows as Found[]).flatMap(({ text, name, stored, read, ends }): readonly Violation[] => [
    ...(stored === 1
      ? []
      : [{ name: 'message_appended_once', detail: `'${text}' is stored ${stored} times` }]),
    ...(read === 1
      ? []
      : [
          {
            name: 'message_read_once',
            detail: `'${text}' is read ${read} times under ${name}; runs given it: ${ends ?? 'none'}`,
          },
        ]),
  ]);
}
