import { fromCustomId, salvageCustomId } from '@nightshift/agent-core';
import type { ClaimedProviderBatch } from '@nightshift/db';
import { answersForOthers } from '../../flow-parts/results/sort-result-lines.ts';
import type { Line } from '../../provider/line-splitter.ts';

/** The proof that a provider batch is ours: the provider gave its id to us, or a line of it bears our nonce. */
export interface Ownership {
  /** Whether these lines may be applied, by what they and the lines before them prove. */
  admits(lines: readonly Line[]): boolean;
  isProven(): boolean;
  /** It was adopted by mistake: as many lines as it was sent requests name others' steps, and none names its own. */
  isForeign(): boolean;
}

/** Starts the proof for a pass. `isAdopted`: the batch was taken from a list, and no line has proven it yet. */
export function proveOwnership(
  batch: Pick<ClaimedProviderBatch, 'nonce' | 'request_count'>,
  isAdopted: boolean,
): Ownership {
  let isOurs = !isAdopted;
  let isOthers = false;
  let count = 0;
  return {
    admits(lines) {
      count += lines.length;
      if (isOurs) return true;
      const theirs = answersForOthers(batch, lines);
      isOthers ||= theirs === true;
      isOurs = theirs === false;
      return isOurs;
    },
    isProven: () => isOurs,
    // Its own file may be short, and hold a line of another batch: only a whole file says that it is not ours.
    isForeign: () => isOthers && !isOurs && count >= batch.request_count,
  };
}

/** The custom id of ours that a line begins with, read without reading the line; null for none. */
export function ownCustomId(batch: Pick<ClaimedProviderBatch, 'nonce'>, line: Line): string | null {
  const named = salvageCustomId(line.kind === 'line' ? line.text : line.head);
  return named !== null && fromCustomId(named)?.nonce === batch.nonce ? named : null;
}
