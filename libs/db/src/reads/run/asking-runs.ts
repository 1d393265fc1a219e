import type { Cap, PromptDensity } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A run of a capped batch whose step is sealed but has no reservation yet. */
export interface AskingRow {
  readonly run_id: string;
  readonly batch_id: string;
  readonly ordinal: number;
  readonly max_tokens: number;
  /** An earlier attempt of the step was cut off, at any limit: the next has no `answer_limit`. */
  readonly was_cut_off: boolean;
  /** Handle. */
  readonly model: string;
  readonly context_window_limit: number;
  /** Samples of the prompts of its definition; null: none. */
  readonly density: PromptDensity | null;
  /** The run's own caps, and the usage of its answers; no usage without a cap. */
  readonly cap: Cap;
  readonly spent_nanousd: number;
  readonly spent_output_tokens: number;
}

/** Reads the runs of the given batches in a provider batch, by ordinal. Index: `step_by_provider_batch`. */
export async function readAskingRuns(
  db: Database,
  providerBatchId: string,
  batchIds: readonly string[],
): Promise<readonly AskingRow[]> {
  const { rows } = await sql<
    Omit<AskingRow, 'cap' | 'density'> & {
      cap_nanousd: number | null;
      cap_tokens: number | null;
      samples: number | null;
      bytes_per_token_min: number | null;
    }
  >`
    select s.run_id, r.batch_id, s.ordinal, s.max_tokens,
           exists (select from step e where e.run_id = s.run_id and e.number = s.number and e.attempt < s.attempt
                      and e.stop_reason = 'max_tokens') as was_cut_off, d.model, d.context_window_limit, y.samples, y.bytes_per_token_min, r.max_cost_nanousd as cap_nanousd,
           r.max_output_tokens as cap_tokens, coalesce(p.cost, 0)::bigint as spent_nanousd,
           coalesce(p.tokens, 0)::bigint as spent_output_tokens
      from step s
      cross join lateral (select * from run where id = s.run_id ${UNMERGED}) r
      join definition d on d.id = r.definition_id
      left join prompt_density y on y.definition_id = d.id
      left join lateral (
        select sum(e.cost_nanousd) as cost, sum(e.output_tokens) as tokens from step e where e.run_id = r.id) p
        on r.max_cost_nanousd is not null or r.max_output_tokens is not null
     where s.provider_batch_id = ${providerBatchId}::uuid and s.state = 'sealed'
       and coalesce(r.batch_id in (select unnest(${uuidArray(batchIds)}::uuid[])), false)
     order by s.ordinal
  `.execute(db);
  return rows.map(({ cap_nanousd, cap_tokens, samples, bytes_per_token_min, ...row }) => ({
    ...row,
    density: samples === null || bytes_per_token_min === null ? null : { samples, bytes_per_token_min },
    cap: { cost_nanousd: cap_nanousd, output_tokens: cap_tokens },
  }));
}
