import { fromCustomId, salvageCustomId } from '@nightshift/agent-core';
import { noteSuspect, type ClaimedProviderBatch } from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import { applyFew } from './apply-halving.ts';
import { applyPoisonLine, type AppliedChunk } from './apply-result-lines.ts';
import { TRIES_ALONE_MAX } from '../../flow-parts/alone.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';

/** The custom id of ours that a line begins with, read without reading the line; null for none. */
export function ownCustomId(batch: { readonly nonce: string }, line: Line): string | null {
  const named = salvageCustomId(line.kind === 'line' ? line.text : line.head);
  return named !== null && fromCustomId(named)?.nonce === batch.nonce ? named : null;
}

/**
 * Applies one line of results that worker after worker did not outlive. Which line it is stands in the database before it is
 * tried, so that the one that is the cause is known: it is put aside, and its run ends. A line that merely fails is added to
 * `left`, with the reason: it is for a pass that takes them in chunks, and sees whether others fail as well.
 */
export async function applyAlone(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  line: Line,
  left: string[],
): Promise<AppliedChunk> {
  const tries = await noteSuspect(deps.db, lease, batch, ownCustomId(batch, line) ?? `line ${line.number}`);
  // Half a line may be whole the next time.
  if (tries <= TRIES_ALONE_MAX || !line.terminated) return applyFew(deps, batch, lease, [line], left);
  const reason = `${tries - 1} workers ended while they had it alone`;
  // Reading it may be what ends them: it is tried once more, for what the answer cost.
  return applyPoisonLine(deps, batch, lease, line, reason, tries === TRIES_ALONE_MAX + 1);
}
