import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { OPEN_RUNS } from '../../reads/due-conditions.ts';

/**
 * Says who answers under a credential from now on: the simulator or a real provider. Called by everybody who starts to
 * work, before anything is sent or looked for: what one has under way the other does not know, so it would be taken for
 * lost and be sent, and paid, again.
 *
 * A credential of which nobody has said so is taken as it is. Throws `other_provider`, and changes nothing, while runs or
 * provider batches of the other one are unfinished. Locks the credential; counts are read only for a change, those of what
 * is open. Index: `batch_open` and `provider_batch_due`.
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
