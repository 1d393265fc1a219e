import { sql } from 'kysely';
import type { Claimant } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { anyUuid, AS_FIRST, UNMERGED } from '../../fragments.ts';
import { unnestRows } from '../unnest-rows.ts';

/** The calls of a limited tool in a worker. */
export interface CallDemand {
  readonly tool_id: string;
  /** Calls under way, which keep their places. */
  readonly under_way: number;
  /** Calls that wait. */
  readonly waiting: number;
  /** Tokens of the last grant that no call has used. */
  readonly unused: number;
}

/** The calls of a tool that a worker may have. */
export interface CallGrant {
  readonly tool_id: string;
  /** Calls that may be under way. Fewer than are under way: none may start. Null: any number. */
  readonly places: number | null;
  /** Calls that may start until the next grant. Null: any number. */
  readonly tokens: number | null;
}

/** Length of a turn. In its turn a worker gets the extra place and the tokens. Unit: milliseconds. */
const TURN_MS = 2_000;
/** Parts of a minute's tokens that a bucket holds at most. */
const BUCKETS_PER_MINUTE = 20;

/**
 * Grants a worker calls of tools, by the database's clock; replaces its last grant. A tool without limits has no grant.
 * - Places: at most its share of the concurrency limit, and the shares that other workers leave. Its calls under way keep
 *   their places; all grants together exceed the limit only after the limit was lowered.
 * - Tokens: those that the rate has brought in, at most three seconds' worth or one. Workers with waiting calls take turns.
 * - A grant lasts as long as a lease.
 * The caller holds the locks of the tools (`lockTools`), taken by an earlier statement: this one must see the grants before.
 * Index: primary keys.
 */
export async function grantCalls(
  trx: Tx,
  { owner, lease_duration_ms }: Claimant,
  demand: readonly CallDemand[],
): Promise<readonly CallGrant[]> {
  const { rows } = await sql<CallGrant>`
    with moment ${AS_FIRST} (select app_now() as now),
    asked ${AS_FIRST} (
      select d.*, t.project_id, t.concurrency, t.rate_per_minute, m.now,
             floor(extract(epoch from m.now) * 1000 / ${TURN_MS}::int)::bigint as turn
        from moment m cross join ${unnestRows(demand, {
          tool_id: ['uuid', ({ tool_id }) => tool_id],
          under_way: ['int', ({ under_way }) => under_way],
          waiting: ['int', ({ waiting }) => waiting],
          unused: ['int', ({ unused }) => unused],
        })}
       cross join lateral (select project_id, concurrency, rate_per_minute from tool where id = d.tool_id ${UNMERGED}) t
       where t.concurrency is not null or t.rate_per_minute is not null),
    workers as (
      select a.tool_id, g.owner, g.under_way, g.waiting, g.places
        from asked a join tool_grant g on g.tool_id = a.tool_id and g.owner <> ${owner} and g.granted_until > a.now
      union all
      select tool_id, ${owner}, under_way, waiting, under_way from asked where under_way + waiting > 0),
    placed as (
      select w.*, a.concurrency, w.under_way + w.waiting as wanted, count(*) over t as owners,
             (row_number() over (partition by w.tool_id order by w.owner) + a.turn) % count(*) over t as turn,
             case when w.waiting > 0 then (row_number() over (partition by w.tool_id, w.waiting > 0 order by w.owner) + a.turn)
               % count(*) over (partition by w.tool_id, w.waiting > 0) end as token_turn
        from workers w join asked a on a.tool_id = w.tool_id
      window t as (partition by w.tool_id)),
    shared as (
      select *, concurrency / owners + (turn < concurrency % owners)::int as share from placed),
    offered as (
      select tool_id, owner, token_turn,
             case when concurrency is not null then
               least(wanted, share + concurrency - sum(least(wanted, share)) over t, concurrency + places - sum(places) over t)
             end as places
        from shared
      window t as (partition by tool_id)),
    filled as (
      select a.tool_id, least(s.size, a.unused + coalesce(
               b.tokens + greatest(0, extract(epoch from a.now - b.filled_at)::float8) * a.rate_per_minute / 60, s.size)) as tokens
        from asked a
       cross join lateral (select greatest(1, a.rate_per_minute::float8 / ${BUCKETS_PER_MINUTE}::int) as size) s
        left join tool_bucket b on b.tool_id = a.tool_id
       where a.rate_per_minute is not null),
    granted ${AS_FIRST} (
      select a.tool_id, a.project_id, a.under_way, a.waiting, a.now, greatest(0, o.places)::int as places, f.tokens as held,
             case when f.tokens is null then null when o.token_turn = 0 then least(a.waiting, floor(f.tokens))::int else 0 end as tokens
        from asked a
        left join offered o on o.tool_id = a.tool_id and o.owner = ${owner}
        left join filled f on f.tool_id = a.tool_id),
    kept as (
      insert into tool_grant (tool_id, owner, project_id, under_way, waiting, places, granted_until)
      select tool_id, ${owner}, project_id, under_way, waiting, greatest(under_way, places),
             now + ${lease_duration_ms} * interval '1 millisecond'
        from granted where under_way + waiting > 0
      on conflict (tool_id, owner) do update
         set under_way = excluded.under_way, waiting = excluded.waiting, places = excluded.places,
             granted_until = excluded.granted_until),
    ended as (
      delete from tool_grant g using moment m
       where g.tool_id = ${anyUuid(demand.map(({ tool_id }) => tool_id))}
         and (g.granted_until <= m.now or g.owner = ${owner})
         and not exists (
           select from granted n where g.owner = ${owner} and n.tool_id = g.tool_id and n.under_way + n.waiting > 0)),
    spent as (
      insert into tool_bucket (tool_id, project_id, tokens, filled_at)
      select tool_id, project_id, held - coalesce(tokens, 0), now from granted where held is not null
      on conflict (tool_id) do update set tokens = excluded.tokens, filled_at = excluded.filled_at)
    select g.tool_id, case when t.concurrency is not null then g.places end as places, g.tokens
      from granted g join asked t on t.tool_id = g.tool_id
  `.execute(trx);
  return rows;
}
