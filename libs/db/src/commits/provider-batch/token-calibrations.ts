import {
  calibrate,
  promptTokens,
  sampledBytesPerToken,
  TOKEN_CALIBRATION_DEFAULT,
  type Usage,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** A request whose size is kept until its answer tells the number of tokens. */
export interface TokenSample {
  readonly run_id: string;
  readonly number: number;
  readonly attempt: number;
  /** The provider's name of the requested model. */
  readonly model: string;
  /** Size of its JSON; no sample has pictures. */
  readonly bytes: number;
}

type MeasuredSample = Usage & {
  readonly model: string;
  readonly bytes: number;
  readonly definition_id: string;
  readonly bytes_per_token: number | null;
  readonly samples: number | null;
};

/**
 * Learns from answered samples: the bytes per token of each model from its largest, and the fewest of each definition from all.
 * Simultaneous workers may lose one of their calibrations, which does not harm estimates, but no density.
 * Locks: the calibrations, one per model, then the densities, one per definition.
 */
export async function learnTokens(trx: Tx, samples: readonly TokenSample[]): Promise<void> {
  if (samples.length === 0) return;
  const { rows } = await sql<MeasuredSample>`
    select d.model, d.bytes, r.definition_id, c.bytes_per_token, c.samples, s.input_tokens, s.output_tokens,
           s.cache_write_5m_tokens, s.cache_write_1h_tokens, s.cache_read_tokens
      from json_to_recordset(${JSON.stringify(samples)}::json)
             as d(run_id uuid, number int, attempt int, model text, bytes int)
      join step s on s.run_id = d.run_id and s.number = d.number and s.attempt = d.attempt
      join run r on r.id = d.run_id
      left join token_calibration c on c.model = d.model
     order by d.bytes desc
  `.execute(trx);
  await learnCalibrations(trx, rows);
  await learnDensities(trx, rows);
}

async function learnCalibrations(trx: Tx, rows: readonly MeasuredSample[]): Promise<void> {
  const learnt = [...Map.groupBy(rows, ({ model }) => model)].flatMap(([model, [largest]]) => {
    if (largest === undefined) return [];
    const { bytes, bytes_per_token, samples: count } = largest;
    const present =
      bytes_per_token === null || count === null
        ? TOKEN_CALIBRATION_DEFAULT
        : { bytes_per_token, samples: count };
    const next = calibrate(present, { bytes, tokens: promptTokens(largest) });
    return next === present ? [] : [{ model, ...next }];
  });
  if (learnt.length === 0) return;
  await sql`
    insert into token_calibration (model, project_id, bytes_per_token, samples)
    select d.model, p.id, d.bytes_per_token, d.samples
      from json_to_recordset(${JSON.stringify(learnt)}::json) 
             as d(model text, bytes_per_token float8, samples int),
           (select id from project limit 1) p
     order by d.model
    on conflict (model) do update
       set bytes_per_token = excluded.bytes_per_token, samples = excluded.samples, updated_at = app_now()
  `.execute(trx);
}

async function learnDensities(trx: Tx, rows: readonly MeasuredSample[]): Promise<void> {
  const learnt = [...Map.groupBy(rows, ({ definition_id }) => definition_id)].flatMap(([id, of]) => {
    const seen = of
      .map((row) => sampledBytesPerToken({ bytes: row.bytes, tokens: promptTokens(row) }))
      .filter((each) => each !== null);
    return seen.length === 0 ? [] : [{ id, samples: seen.length, least: Math.min(...seen) }];
  });
  if (learnt.length === 0) return;
  await sql`
    insert into prompt_density as y (definition_id, project_id, samples, bytes_per_token_min)
    select d.id, p.id, d.samples, d.least
      from json_to_recordset(${JSON.stringify(learnt)}::json) as d(id uuid, samples int, least float8),
           (select id from project limit 1) p
     order by d.id
    on conflict (definition_id) do update
       set samples = y.samples + excluded.samples,
           bytes_per_token_min = least(y.bytes_per_token_min, excluded.bytes_per_token_min), updated_at = app_now()
  `.execute(trx);
}
