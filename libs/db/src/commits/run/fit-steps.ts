import { sql } from 'kysely';
import type { StepKey } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { WITHOUT_UNSENT_PROMPT } from '../../fragments.ts';

/** The change that makes a sealed step fit the context window. */
export interface FittedStep extends StepKey {
  /** Token limit of its answer: a summary's own, otherwise at most the sealed limit. */
  readonly max_tokens: number;
  /** Number of the last message that it now summarises; null: it stays a normal step. */
  readonly summarise_to_seq: number | null;
}

/**
 * Makes sealed steps of a provider batch in `building` fit the window: with a shorter answer, or as a request for a
 * summary, which shows no memory. The caller holds the lease of the provider batch and the locks of the runs.
 * Throws: an error, keeping nothing, for a step that is no longer sealed.
 */
export async function commitStepsFitted(trx: Tx, fitted: readonly FittedStep[]): Promise<void> {
  if (fitted.length === 0) return;
  // The expected state is a parameter: as a literal, a planner without statistics for it expects one row.
  const payload = fitted.map(({ run_id, number, attempt, max_tokens, summarise_to_seq }) => ({
    r: run_id,
    n: number,
    a: attempt,
    f: 'sealed',
    m: max_tokens,
    q: summarise_to_seq,
  }));
  const { numAffectedRows } = await sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(r uuid, n int, a int, f text, m int, q int)),
    marked as (
      update run r set summarises_to_seq = d.q, ${WITHOUT_UNSENT_PROMPT} from d where r.id = d.r and d.q is not null)
    update step s
       set max_tokens_fitted = d.m, max_tokens = greatest(s.max_tokens, d.m), is_summary = d.q is not null, context_to_seq = coalesce(d.q, s.context_to_seq),
           block_ids = case when d.q is null then s.block_ids else '{}' end,
           block_revisions = case when d.q is null then s.block_revisions else '{}' end,
           block_labels = case when d.q is null then s.block_labels end
      from d
     where s.run_id = d.r and s.number = d.n and s.attempt = d.a and s.state = d.f
  `.execute(trx);
  if (Number(numAffectedRows ?? 0) !== fitted.length) {
    throw new Error(
      `Expected to fit ${fitted.length} steps, fitted ${String(numAffectedRows)}. Nothing was stored.`,
    );
  }
}
