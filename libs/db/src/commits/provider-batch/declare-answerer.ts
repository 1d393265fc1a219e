import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { OPEN_RUNS } from '../../reads/due-conditions.ts';

/**
 * Declares whether the simulator or a real provider answers under a credential. Every worker calls it at start, before it
 * sends or searches: neither knows the other's open requests, and they would be taken for lost, sent again and paid twice.
 * A credential without a declaration accepts any.
 * Throws: `other_provider`, and changes nothing, while runs or provider batches of the other are unfinished.
 * Locks: the credential. Index: `batch_open`, `provider_batch_due`; counts are read only on a change.
 */
export async function declareAnswerer(trx: Tx, credential: string, simulated: boolean): Promise<void> {
  const row = await trx
    .selectFrom('credential')
    .select('simulated')
    .where('name', '=', credential)
    .forNoKeyUpdate()
    .executeTakeFirst();
  const before = row?.simulated;
  if (before === simulated) return;
  if (before === !simulated) await refuseUnfinished(trx, credential, simulated);
  await trx.updateTable('credential').set({ simulated }).where('name', '=', credential).execute();
}

async function refuseUnfinished(trx: Tx, credential: string, simulated: boolean): Promise<void> {
  const { rows } = await sql<{ runs: number; batches: number }>`
    select (select coalesce(sum(${OPEN_RUNS}), 0)::int from batch b where b.completed_at is null) as runs,
           (select count(*)::int from provider_batch
             where credential = ${credential} and next_due_at is not null) as batches
  `.execute(trx);
  const { runs, batches } = rows[0] ?? { runs: 0, batches: 0 };
  if (runs === 0 && batches === 0) return;
  const counts = [counted(runs, 'run', 'runs'), counted(batches, 'provider batch', 'provider batches')];
  const unfinished = counts.filter((count) => !count.startsWith('0 ')).join(', ');
  throw new NightshiftError(
    'other_provider',
    simulated
      ? `Unfinished at the real provider: ${unfinished}. This start is with the simulator, which knows none of them. ` +
          'Start with ANTHROPIC_API_KEY until they have ended, or cancel them there.'
      : `Unfinished at the simulator: ${unfinished}. This start is with the real provider, which would be paid for them. ` +
          'Start without ANTHROPIC_API_KEY until they have ended, or cancel them there.',
  );
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}
