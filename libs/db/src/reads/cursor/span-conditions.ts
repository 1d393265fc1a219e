import { sql, type RawBuilder } from 'kysely';
import { UNMERGED } from '../../fragments.ts';

/** Conditions of a span `s`; its run is `r` where a condition names it. */

/** Selects the end of the span's run, also of a run that is removed. Index: primary key. */
export const RUN_OF_SPAN: RawBuilder<unknown> = sql`
  select ended_at, stop_reason from run where id = s.run_id
  union all select '-infinity'::timestamptz, s.stop_reason where s.stop_reason is not null ${UNMERGED}`;

/** True for a run `r` that ended as a completed rewrite does. */
export const ENDED_WELL: RawBuilder<boolean> = sql`r.stop_reason in ('end_turn', 'tool_rule')`;

/** True for a run `r` that ended in another way, except by a cancel, a cap or a deadline, which are not the agent's fault. */
export const FAILED: RawBuilder<boolean> = sql`
  r.stop_reason not in ('end_turn', 'tool_rule', 'cancelled', 'budget_exceeded', 'deadline')`;

const HELD_PASSAGE = sql`exists (
  select from passage p
   where p.batch_id = s.batch_id and p.agent_id = s.agent_id and p.held_by_batch_id is not null ${UNMERGED})`;

/** True while changes of the span's agent in its batch are held. Index: keys of `held_change`, `passage_by_batch`. */
export const UNSETTLED: RawBuilder<boolean> = sql`(exists (
  select from held_change h
   where h.batch_id = s.batch_id and h.agent_id = s.agent_id and h.state = 'held' ${UNMERGED}) or ${HELD_PASSAGE})`;

/**
 * True when the changes of the span's agent in its batch are in force: none was ever held, or all are settled and one was
 * accepted. Rejected passages leave no row: their rejection marks the span.
 * Index: keys of `held_change`, `passage_by_batch`.
 */
export const IN_FORCE: RawBuilder<boolean> = sql`(
  (select count(*) = 0
          or count(*) filter (where h.state = 'held') = 0
             and (count(*) filter (where h.state = 'accepted') > 0
                  or exists (select from passage p
                              where p.batch_id = s.batch_id and p.agent_id = s.agent_id ${UNMERGED}))
     from held_change h where h.batch_id = s.batch_id and h.agent_id = s.agent_id)
  and not ${HELD_PASSAGE})`;
