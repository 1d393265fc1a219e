import {
  isBrokenConstraint,
  isStatementTimeout,
  judgeError,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import type { HeldLease } from '../leases/keeper.ts';
import type { Line } from '../provider/line-splitter.ts';
import { applyPoisonLine, applyResultLines, type AppliedChunk } from './apply-result-lines.ts';
import type { FlowDeps } from './deps.ts';

/** Lines of one chunk that may be put aside as poison; where more fail, the fault is not in the lines. */
const POISON_LINES_MAX = 3;
/** Times that a line alone is tried which breaks a constraint: others may commit in between, but not for ever. */
const COLLISION_TRIES_MAX = 3;

interface FailedLine {
  readonly line: Line;
  readonly reason: string;
  /** It took too long, which another pass may not. */
  readonly slow: boolean;
}

/**
 * Applies a chunk of lines. One that fails because of what is in it, or takes too long, is halved until the lines that are
 * the cause are alone; those are put aside and their runs end, and all others are applied. A line that merely takes too long
 * is left for the next pass while there is one. One that breaks a constraint may have met what another transaction had not
 * committed when it was decided about, so it is decided about again before it is given up. Where many lines fail alone, none is put aside: the pass stops, and the
 * provider keeps the results until the fault is mended.
 *
 * `isWhole`: they are a chunk as it came, in which an outage of the provider shows.
 */
export async function applyHalving(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole: boolean,
): Promise<AppliedChunk> {
  const failures: FailedLine[] = [];
  const applied = await applyOrHalve(deps, batch, lease, lines, failures, isWhole);
  const [first] = failures;
  if (first === undefined) return applied;
  if (failures.length > POISON_LINES_MAX) {
    throw new Error(
      `${failures.length} lines of one chunk cannot be applied, so none is given up: ${first.reason}`,
    );
  }
  const isLastPass = batch.streams + 1 >= deps.settings.streams_max;
  const chunks = [applied];
  for (const { line, reason, slow } of failures) {
    chunks.push(
      slow && !isLastPass
        ? { ...joined([]), poison: [`line ${line.number}: ${reason}`] }
        : await applyPoisonLine(deps, batch, lease, line, reason),
    );
  }
  return joined(chunks);
}

/**
 * Applies a few lines, too few to see how many fail: those that do are added to `left`, with the reason, and wait for a pass in
 * whole chunks. Throws where they have become more than a chunk holds: then nearly all fail.
 */
export async function applyFew(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  left: string[],
): Promise<AppliedChunk> {
  const failures: FailedLine[] = [];
  const applied = await applyOrHalve(deps, batch, lease, lines, failures, false);
  left.push(...failures.map(({ line, reason }) => `line ${line.number}: ${reason}`));
  const [first] = left;
  if (first !== undefined && left.length > deps.settings.chunk_lines) {
    throw new Error(`${left.length} lines cannot be applied, so none is given up: ${first}`);
  }
  return applied;
}

async function applyOrHalve(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  failures: FailedLine[],
  isWhole: boolean,
  tries = 1,
): Promise<AppliedChunk> {
  try {
    return await applyResultLines(deps, batch, lease, lines, isWhole);
  } catch (error) {
    const slow = isStatementTimeout(error);
    if (judgeError(error) !== 'poison' && !slow) throw error;
    const [only] = lines;
    if (only !== undefined && lines.length === 1) {
      if (isBrokenConstraint(error) && tries < COLLISION_TRIES_MAX) {
        return applyOrHalve(deps, batch, lease, lines, failures, false, tries + 1);
      }
      failures.push({ line: only, reason: error instanceof Error ? error.message : 'unknown', slow });
      return joined([]);
    }
    // What failed may be the result of a call, which is no fault of the line: from here on calls go the ordinary way.
    const middle = Math.ceil(lines.length / 2);
    const first = await applyOrHalve(deps, batch, lease, lines.slice(0, middle), failures, false);
    // Enough is known: halving the rest would only repeat it.
    if (failures.length > POISON_LINES_MAX) return first;
    return joined([first, await applyOrHalve(deps, batch, lease, lines.slice(middle), failures, false)]);
  }
}

function joined(chunks: readonly AppliedChunk[]): AppliedChunk {
  return {
    applied: chunks.reduce((sum, chunk) => sum + chunk.applied, 0),
    refused: chunks.reduce((sum, chunk) => sum + chunk.refused, 0),
    quarantined: chunks.reduce((sum, chunk) => sum + chunk.quarantined, 0),
    cut: chunks.some((chunk) => chunk.cut),
    poison: chunks.flatMap((chunk) => chunk.poison),
  };
}
