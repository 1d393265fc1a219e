import type { Database } from '../../connect.ts';

/**
 * Reads the last turnarounds of provider batches under a credential, ascending, by the provider's name of each model in
 * them. A model without an ended batch is left out.
 * Unit: milliseconds.
 */
export async function readTurnarounds(
  db: Database,
  credential: string,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const rows = await db
    .selectFrom('turnaround')
    .select(['model', 'durations_ms'])
    .where('credential', '=', credential)
    .orderBy('model')
    .execute();
  return new Map(rows.map(({ model, durations_ms }) => [model, durations_ms.toSorted((a, b) => a - b)]));
}
