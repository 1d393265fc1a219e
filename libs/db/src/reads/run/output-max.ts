import { sql, type RawBuilder } from 'kysely';

/** Maximum output tokens of models, by their names in the price table. */
export type OutputMaxima = readonly { readonly model: string; readonly output_tokens_max: number }[];

/** Selects the maximum output of a definition `d`'s model, looked up like its price: by name, then without its date. */
export function outputMaxOf(maxima: OutputMaxima): RawBuilder<number | null> {
  const most = JSON.stringify(
    Object.fromEntries(maxima.map(({ model, output_tokens_max }) => [model, output_tokens_max])),
  );
  return sql`coalesce(${most}::jsonb ->> substr(d.model, position('/' in d.model) + 1),
                      ${most}::jsonb ->> regexp_replace(d.model, '^[^/]*/|-\\d{8}$', '', 'g'))::int`;
}
