import { fromCustomId, salvageCustomId } from '@nightshift/agent-core';
import type { ClaimedProviderBatch } from '@nightshift/db';
import { answersForOthers } from '../../flow-parts/results/sort-result-lines.ts';
import type { Line } from '../../provider/line-splitter.ts';

/** Proof that a provider batch is ours: the provider gave us its id, or a line bears our nonce. */
export interface Ownership {
  /** Whether these lines may be applied, by the proof so far. */
  admits(lines: readonly Line[]): boolean;
  isProven(): boolean;
  /** Whether it was adopted by mistake: as many lines as requests were read, and all name steps of other batches. */
  isForeign(): boolean;
}

/** Starts the proof for a pass. `isAdopted`: the batch was adopted from a list and is not proven yet. */
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
    // Our own file may be short and hold a foreign line: only a complete file proves that it is foreign.
    isForeign: () => isOthers && !isOurs && count >= batch.request_count,
  };
}

/** Returns our custom id at the start of a line, without decoding the line; null if there is none. */
export function ownCustomId(batch: Pick<ClaimedProviderBatch, 'nonce'>, line: Line): string | null {
  const named = salvageCustomId(line.kind === 'line' ? line.text : line.head);
  return named !== null && fromCustomId(named)?.nonce === batch.nonce ? named : null;
}
