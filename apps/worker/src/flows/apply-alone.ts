import { fromCustomId, salvageCustomId } from '@nightshift/agent-core';
import { judgeError, noteSuspect, type ClaimedProviderBatch } from '@nightshift/db';
import type { HeldLease } from '../leases/keeper.ts';
import type { Line } from '../provider/line-splitter.ts';
import { applyPoisonLine, applyResultLines, type AppliedChunk } from './apply-result-lines.ts';
import type { FlowDeps } from './deps.ts';

/** Workers that may end while they have a line alone, before it is put aside. */
export const TRIES_ALONE_MAX = 3;

/**
 * Applies one line of results that worker after worker did not outlive. Which line it is stands in the database before it is
 * tried, so that the one that is the cause is known: it is put aside, and its run ends. Calls go the ordinary way, since a tool
 * may be the cause too. A line that merely fails is added to `left`, with the reason: it is for a pass that takes them in
 * chunks, and sees whether others fail as well.
 */
export async function applyAlone(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  line: Line,
  left: string[],
): Promise<AppliedChunk> {
  const named = salvageCustomId(line.kind === 'line' ? line.text : line.head);
  if (named !== null && fromCustomId(named)?.nonce === batch.nonce) {
    const tries = await noteSuspect(deps.db, lease, batch, named);
    if (tries > TRIES_ALONE_MAX) {
      const reason = `${tries - 1} workers ended while they had it alone`;
      // Reading it may be what ends them: it is tried once more, for what the answer cost.
      return applyPoisonLine(deps, batch, lease, line, reason, tries === TRIES_ALONE_MAX + 1);
    }
  }
  try {
    return await applyResultLines(deps, batch, lease, [line], false);
  } catch (error) {
    if (judgeError(error) !== 'poison') throw error;
    left.push(`line ${line.number}: ${error instanceof Error ? error.message : 'unknown'}`);
    return { applied: 0, refused: 0, quarantined: 0, cut: false, poison: [] };
  }
}
