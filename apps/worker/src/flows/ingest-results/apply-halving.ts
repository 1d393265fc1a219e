import {
  isBrokenConstraint,
  isStatementTimeout,
  judgeError,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { joinChunks, type AppliedChunk } from './applied-chunk.ts';
import { applyChunk } from './apply-chunk.ts';
import { setAside } from './set-aside.ts';

/** Lines of one chunk that may be put aside as poison; where more fail, the fault is not in the lines. */
const POISON_LINES_MAX = 3;
/** Times that a line alone is tried which breaks a constraint: others may commit in between, but not for ever. */
const COLLISION_TRIES_MAX = 3;

interface FailedLine {
  readonly line: Line;
  readonly reason: string;
}

/** What became of lines that were halved. */
interface Halved {
  readonly applied: AppliedChunk;
  /** Lines that fail alone because of what is in them. */
  readonly bad: readonly FailedLine[];
  /** Lines that take too long alone, which another pass may not. */
  readonly slow: readonly FailedLine[];
  /** Nothing went through, and what took too long was more than some lines: it is the database that is slow. */
  readonly stuck: boolean;
}

/**
 * Applies a chunk of lines. One that fails because of what is in it, or takes too long, is halved until the lines that are
 * the cause are alone; those are put aside and their runs end, and all others are applied. One that breaks a constraint may have
 * met what another transaction had not committed when it was decided about, so it is decided about again before it is given up.
 * Where many lines fail alone, none is put aside: the pass stops, and the provider keeps the results until the fault is mended.
 *
 * Lines that merely take too long, however many, hold up no other: they are left for the next pass. Where many do and nothing
 * of the chunk goes through, the database is slow, and the pass stops. In the last pass a few are tried once more, for the
 * database may have been busy, and put aside if they take too long again. That takes a write, as any line does: where that is
 * too slow as well it throws, and nothing is given up. Of many none is given up either: the last pass then is none.
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
  const { applied, bad, slow, stuck } = await halve(deps, batch, lease, lines, isWhole);
  const failures = [...bad, ...slow];
  const [first] = failures;
  if (first === undefined) return applied;
  const isLastPass = batch.streams + 1 >= deps.settings.streams_max;
  if (bad.length > POISON_LINES_MAX || stuck || (isLastPass && slow.length > POISON_LINES_MAX)) {
    throw new Error(
      `${failures.length} lines of one chunk cannot be applied, so none is given up: ${first.reason}`,
    );
  }
  const chunks = [applied];
  for (const { line, reason } of bad) chunks.push(await setAside(deps, batch, lease, line, reason));
  for (const failed of slow) {
    if (isLastPass) chunks.push(await tryOnceMore(deps, batch, lease, failed));
    else chunks.push({ ...joinChunks([]), alarms: [`line ${failed.line.number}: ${failed.reason}`] });
  }
  return joinChunks(chunks);
}

/** Applies a line that took too long, or puts it aside if it does so again. What else it fails of is for the next pass to see. */
async function tryOnceMore(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  { line, reason }: FailedLine,
): Promise<AppliedChunk> {
  const { applied, bad, slow } = await halve(deps, batch, lease, [line], false);
  const [other] = bad;
  if (other !== undefined) {
    throw new Error(`line ${line.number} took too long, and now it cannot be applied: ${other.reason}`);
  }
  return slow.length > 0 ? setAside(deps, batch, lease, line, reason) : applied;
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
  const { applied, bad, slow } = await halve(deps, batch, lease, lines, false);
  left.push(...[...bad, ...slow].map(({ line, reason }) => `line ${line.number}: ${reason}`));
  const [first] = left;
  if (first !== undefined && left.length > deps.settings.chunk_lines) {
    throw new Error(`${left.length} lines cannot be applied, so none is given up: ${first}`);
  }
  return applied;
}

/**
 * Applies lines in ever smaller parts, until those that fail are alone. That lines were applied before counts as going
 * through: it takes a transaction, though no write, which is enough to go on and not to give up anything. Each part that is
 * too slow costs the time that a statement may take, which for a chunk of many such lines makes hours.
 */
async function halve(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole: boolean,
): Promise<Halved> {
  const parts = [lines];
  /** Too slow, and tried in halves once something goes through: before, that would only repeat what is known. */
  const waiting: (readonly Line[])[] = [];
  const chunks: AppliedChunk[] = [];
  const bad: FailedLine[] = [];
  const slow: FailedLine[] = [];
  let nothingYet = true;
  for (let part = parts.pop(); part !== undefined && bad.length <= POISON_LINES_MAX; part = parts.pop()) {
    lease.signal.throwIfAborted();
    const tried = await tryPart(deps, batch, lease, part, isWhole && part === lines);
    const [only] = part;
    if (tried.chunk !== null) {
      chunks.push(tried.chunk);
      nothingYet &&= tried.chunk.applied + tried.chunk.refused === 0;
      if (!nothingYet) parts.push(...waiting.splice(0));
    } else if (only !== undefined && part.length === 1) {
      (tried.slow ? slow : bad).push({ line: only, reason: tried.reason });
    } else if (tried.slow && nothingYet && slow.length > POISON_LINES_MAX) {
      waiting.push(part);
    } else {
      const middle = Math.ceil(part.length / 2);
      parts.push(part.slice(middle), part.slice(0, middle));
    }
  }
  return { applied: joinChunks(chunks), bad, slow, stuck: nothingYet && slow.length > POISON_LINES_MAX };
}

type TriedPart =
  | { readonly chunk: AppliedChunk }
  | { readonly chunk: null; readonly reason: string; readonly slow: boolean };

async function tryPart(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  part: readonly Line[],
  isWhole: boolean,
): Promise<TriedPart> {
  for (let tries = 1; ; tries++) {
    try {
      // What failed may be the result of a call, which is no fault of the line: from then on calls go the ordinary way.
      return { chunk: await applyChunk(deps, batch, lease, part, isWhole && tries === 1) };
    } catch (error) {
      const slow = isStatementTimeout(error);
      if (judgeError(error) !== 'poison' && !slow) throw error;
      if (part.length === 1 && isBrokenConstraint(error) && tries < COLLISION_TRIES_MAX) continue;
      return { chunk: null, reason: error instanceof Error ? error.message : 'unknown', slow };
    }
  }
}
