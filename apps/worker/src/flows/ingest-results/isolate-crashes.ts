import { CRASHES_MAX, linesAfterCrashes } from '@nightshift/agent-core';
import { noteSuspect, resetCrashCount, type ClaimedProviderBatch } from '@nightshift/db';
import { TRIES_ALONE_MAX } from '../../flow-parts/alone.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import type { AppliedChunk } from './applied-chunk.ts';
import { applyFew, applyHalving } from './apply-halving.ts';
import { ownCustomId } from './prove-ownership.ts';
import { setAside } from './set-aside.ts';

/** Applies the chunks of a pass so that a line that crashes its worker is found. */
export interface CrashIsolation {
  /** Maximum chunks in progress. */
  readonly chunks_max: number;
  /** Maximum lines of the next chunk. */
  chunkLines(): number;
  /** Applies a chunk. `isWhole`: no line was left out. */
  apply(lines: readonly Line[], isWhole: boolean): Promise<AppliedChunk>;
  /** Lines that failed alone, with the reasons. A pass in whole chunks shows whether others fail as well. */
  readonly left: readonly string[];
}

/**
 * Creates the crash isolation of a pass.
 * Without crashes, chunks are applied whole. After {@link CRASHES_MAX} crashed workers, the first `chunk_lines` lines are
 * applied one by one, and later lines in small chunks. Progress resets the crash count.
 */
export function isolateCrashes(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
): CrashIsolation {
  const { chunk_lines, chunks_in_flight } = deps.settings;
  const lines_max = linesAfterCrashes(batch.crash_count, chunk_lines);
  let isCounted = batch.crash_count > 0;
  /** Lines still to be applied one by one. */
  let alone = batch.crash_count >= CRASHES_MAX ? chunk_lines : 0;
  const left: string[] = [];
  return {
    chunks_max: alone > 0 ? 1 : chunks_in_flight,
    chunkLines: () => (alone > 0 ? 1 : lines_max),
    left,
    async apply(lines, isWhole) {
      const [line] = lines;
      const chunk =
        alone > 0 && line !== undefined
          ? await applyAlone(deps, batch, lease, line, left)
          : await applyHalving(deps, batch, lease, lines, isWhole && lines_max === chunk_lines);
      alone -= chunk.applied;
      if (isCounted && chunk.applied > 0 && alone <= 0) {
        isCounted = false;
        await resetCrashCount(deps.db, lease);
      }
      return chunk;
    },
  };
}

/**
 * Applies a single line, noted in the database before the attempt.
 * After {@link TRIES_ALONE_MAX} crashes over it alone, the line is set aside and its run ends. A line that fails without a
 * crash is added to `left`.
 */
async function applyAlone(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  line: Line,
  left: string[],
): Promise<AppliedChunk> {
  const tries = await noteSuspect(deps.db, lease, batch, ownCustomId(batch, line) ?? `line ${line.number}`);
  // A cut line may be complete the next time.
  if (tries <= TRIES_ALONE_MAX || !line.terminated) return applyFew(deps, batch, lease, [line], left);
  const reason = `${tries - 1} workers crashed while they held it alone`;
  // Reading may be the cause of the crash, so the line is read once more for its cost, and only once.
  return setAside(deps, batch, lease, line, reason, tries === TRIES_ALONE_MAX + 1);
}
