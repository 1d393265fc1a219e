import type { AcceptInput } from '@nightshift/client';
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef, useState } from 'react';
import { nightshift } from '../../api/client.ts';
import { STALE_REASONS, withoutTexts, type Change } from './change.ts';
import type { Entry } from './entries.ts';
import { settledFilters, type ReviewFilters } from './filters.ts';
import { patchList } from './held-list.ts';
import { revertChange } from './revert.ts';
import { textsQuery } from './texts.ts';

/** Counts are read again this long after the last settled change. Unit: milliseconds. */
const COUNT_AFTER = 1_000;

/** What went wrong with a change; the row shows its present state again. */
export interface Trouble {
  readonly change: Change;
  readonly message: string;
}

type Decision = 'accepted' | 'rejected';

/** Settles changes of a batch. Rows change at once, and change back if the API refuses. */
export function useSettle(batchId: string, filters: ReviewFilters) {
  const queries = useQueryClient();
  const [troubles, setTroubles] = useState<readonly Trouble[]>([]);
  const [reverted, setReverted] = useState<ReadonlySet<string>>(new Set());
  const counting = useRef<number>(undefined);

  const countAgain = useCallback(() => {
    window.clearTimeout(counting.current);
    const read = (): void => {
      void queries.invalidateQueries({ queryKey: ['review', batchId, 'summary'] });
      void queries.invalidateQueries({ queryKey: ['review', 'batches'] });
    };
    counting.current = window.setTimeout(read, COUNT_AFTER);
  }, [queries, batchId]);

  /** Reads a change again, and shows it as it is. */
  const refresh = useCallback(
    async (change: Change): Promise<Change> => {
      const query = textsQuery(batchId, change);
      const fresh = await queries.query({ ...query, staleTime: 0 });
      patchList(queries, batchId, (row) => (row.id === change.id ? withoutTexts(fresh) : row));
      return fresh;
    },
    [queries, batchId],
  );

  return useMemo(() => {
    const tell = (change: Change, message: string): void =>
      setTroubles((before) => [
        ...before.filter((trouble) => trouble.change.id !== change.id),
        { change, message },
      ]);

    const settle = async (
      entry: Entry,
      state: Decision,
      onConflict?: AcceptInput['on_conflict'],
    ): Promise<void> => {
      const { change } = entry;
      setTroubles((before) => before.filter((trouble) => trouble.change.id !== change.id));
      patchList(queries, batchId, (row) => (isOf(entry, row) ? { ...row, state } : row));
      try {
        const left = await send(batchId, entry, { state, filters, onConflict });
        const fresh = await refresh(change);
        const refusal = left ?? refusalOf(fresh, state);
        if (refusal !== null) tell(change, refusal);
      } catch (error) {
        patchList(queries, batchId, (row) =>
          isOf({ ...entry, change: { ...change, state } }, row) ? { ...row, state: change.state } : row,
        );
        tell(change, messageOf(error));
        await refresh(change).catch(() => undefined);
      }
      countAgain();
    };

    const revert = async (change: Change): Promise<void> => {
      setTroubles((before) => before.filter((trouble) => trouble.change.id !== change.id));
      try {
        await revertChange(batchId, change);
        setReverted((before) => new Set([...before, change.id]));
      } catch (error) {
        tell(change, messageOf(error));
      }
      await refresh(change).catch(() => undefined);
    };

    const forget = (change: Change): void =>
      setTroubles((before) => before.filter((trouble) => trouble.change !== change));
    return { settle, revert, refresh, countAgain, troubles, forget, reverted };
  }, [queries, batchId, filters, refresh, countAgain, troubles, reverted]);
}

/** Tells whether a row is settled with an entry. */
function isOf({ change, count }: Entry, row: Change): boolean {
  if (row.id === change.id) return true;
  return count > 1 && row.change_group === change.change_group && row.state === change.state && !row.stale;
}

interface Sent {
  readonly state: Decision;
  readonly filters: ReviewFilters;
  readonly onConflict: AcceptInput['on_conflict'];
}

/** Sends a decision. Returns why a change stays held; null if none does. */
async function send(
  batchId: string,
  { change, count }: Entry,
  { state, filters, onConflict }: Sent,
): Promise<string | null> {
  const chosen =
    count === 1
      ? { change_ids: [change.id] }
      : { ...settledFilters(filters), change_group: change.change_group, stale: false };
  if (state === 'rejected') {
    await nightshift.batches.rejectHeldChanges(batchId, chosen);
    return null;
  }
  const { stale } = await nightshift.batches.acceptHeldChanges(batchId, {
    ...chosen,
    on_conflict: onConflict,
  });
  const [first] = stale;
  if (first === undefined) return null;
  const reason =
    first.reason === 'label_taken'
      ? 'The agent already has another block with this label.'
      : STALE_REASONS[first.reason];
  if (onConflict === 'rebase')
    return `Both texts changed the same lines, so they cannot be merged. Edit the change, overwrite the present text, or reject it.`;
  return stale.length === 1
    ? `Not accepted. ${reason}`
    : `${stale.length} of them were not accepted. ${reason}`;
}

/** Says that a change was settled otherwise meanwhile. */
function refusalOf({ state, settled_at }: Change, wanted: Decision): string | null {
  if (state === wanted) return null;
  if (state === 'held') return 'The change is still held. Try it again.';
  const at = settled_at === null ? '' : ` at ${new Date(settled_at).toLocaleTimeString()}`;
  return `The change was ${state} meanwhile${at}. It stays so.`;
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
