import type { HeldChange } from '@nightshift/client';
import type { Session } from '../../session.ts';
import { listHeld, type HeldFlags } from './held.ts';

/** Held changes that flags choose, read page by page as they are needed, with their texts. */
export interface ChosenChanges {
  /** Those that are read. */
  readonly known: readonly HeldChange[];
  /** Tells whether all are read. */
  isAll(): boolean;
  /** Returns the change at a place; undefined after the last. */
  at(place: number): Promise<HeldChange | undefined>;
  /** Puts an edited change in the place of the read one. */
  replace(place: number, change: HeldChange): void;
}

/** Page of the review: small, because its first change is waited for. */
const PAGE = 20;

/** Lists the held changes of a batch that the flags choose. */
export function listChosen(session: Session, batchId: string, flags: HeldFlags): ChosenChanges {
  const source = listHeld(session, batchId, flags, { limit: PAGE, include: 'values' });
  const known: HeldChange[] = [];
  const ids = new Set<string>();
  let isAll = false;
  return {
    known,
    isAll: () => isAll,
    at: async (place) => {
      // Reads to the end of a page, so that as many are known as that request told.
      while ((known.length <= place || known.length % PAGE !== 0) && !isAll) {
        const next = await source.next();
        if (next.done === true) isAll = true;
        // A change that becomes stale moves within the order of risk.
        else if (!ids.has(next.value.id)) {
          ids.add(next.value.id);
          known.push(next.value);
        }
      }
      return known[place];
    },
    replace: (place, change) => {
      known[place] = change;
    },
  };
}
