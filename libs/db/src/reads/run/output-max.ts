import { sql, type RawBuilder } from 'kysely';

/** What models write at most, by the names that the price table has. */
export type OutputMaxima = readonly { readonly model: string; readonly output_tokens_max: number }[];

/** What the model of a definition `d` writes at most, looked up as its price is: by its name, then without its date. */
export function outputMaxOf(maxima: OutputMaxima): RawBuilder<number | null> {
  const most = JSON.stringify(
    Object.fromEntries(maxima.map(({ model, output_tokens_max }) => [model, output_tokens_max])),
  );
  return sql`coalesce(${most}::jsonb ->> substr(d.model, position('/' in d.model) + 1),
                      ${most}::jsonb ->> regexp_replace(d.model, '^[^/]*/|-\\d{8}$', '', 'g'))::int`;
}
