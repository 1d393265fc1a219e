import type { Nightshift } from '@nightshift/client';
import { take } from './take.ts';

/** Says which batch has tried runs of a batch again, the latest; undefined if none has. */
export async function retriesOf(client: Nightshift, id: string): Promise<string | undefined> {
  for await (const { id: later } of take(client.batches.list({ retry_of: id, limit: 1 }), 1))
    return `${later} has tried runs of it again already; a retry takes only the others.`;
  return undefined;
}
