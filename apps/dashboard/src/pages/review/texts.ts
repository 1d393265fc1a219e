import type { HeldChange } from '@nightshift/client';
import { queryOptions } from '@tanstack/react-query';
import { nightshift } from '../../api/client.ts';
import type { Change } from './change.ts';

/** Reads a change with its texts: worked from, proposed, now. */
export const textsQuery = (batchId: string, { id, agent_id }: Pick<Change, 'id' | 'agent_id'>) =>
  queryOptions({
    queryKey: ['review', batchId, 'texts', id],
    queryFn: async (): Promise<HeldChange> => {
      const ofAgent = nightshift.batches.heldChanges(batchId, { agent_id, include: 'values' });
      for await (const change of ofAgent) if (change.id === id) return change;
      throw new Error('The batch no longer has this change. Load the page again.');
    },
    staleTime: 30_000,
    gcTime: 60_000,
  });
