import type { Batch } from '@nightshift/client';
import type { Define, Session } from '../session.ts';
import { wholeNumber } from '../parse.ts';
import { endedOf, failedOf } from '../ended.ts';
import { take } from '../take.ts';
import { dollarsOf } from '../words.ts';

interface Flags {
  readonly state?: Batch['state'];
  readonly tag?: string;
  readonly name?: string;
  readonly limit: number;
}

/** Lists batches, latest first. */
export const define: Define = (command, run) => {
  command
    .option('--state <state>', 'receiving, running, paused, cancelling, completed, cancelled or failed')
    .option('--tag <tag>', 'with this tag')
    .option('--name <text>', 'with this text in the name')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 20)
    .action(run<Flags>(list));
};

async function list({ client, out }: Session, { limit, ...query }: Flags): Promise<undefined> {
  const batches = client.batches.list({ ...query, limit: Math.min(limit, 100) });
  await out.list(take(batches, limit), {
    head: ['id', 'name', 'state', 'ended', 'failed', 'total', 'cost', 'created'],
    row: (batch) => [
      batch.id,
      batch.name,
      batch.state,
      endedOf(batch),
      failedOf(batch),
      batch.counts.total,
      dollarsOf(batch.usage.cost_usd),
      batch.created_at,
    ],
    empty: 'No batches. Send some with nightshift submit FILE.',
  });
}
