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

/** Lines of one chunk that may be set aside as poison. If more fail, the lines are not the cause. */
const POISON_LINES_MAX = 3;
/** Attempts for a single line that breaks a constraint: other transactions may commit in between, but not for ever. */
const COLLISION_TRIES_MAX = 3;

interface FailedLine {
  readonly line: Line;
  readonly reason: string;
}

/** Result of applying lines by halves. */
interface Halved {
  readonly applied: AppliedChunk;
  /** Lines that fail alone because of their content. */
  readonly bad: readonly FailedLine[];
  /** Lines that time out alone, but may not in another pass. */
  readonly slow: readonly FailedLine[];
  /** No line was applied, and too many timed out: the database is slow. */
  readonly isDatabaseSlow: boolean;
}

/**
 * Applies a chunk of lines; halves it on failure until the failing lines are alone.
 * - Bad lines are set aside and their runs end. All others are applied.
 * - A line that breaks a constraint is decided again first: it may have met an uncommitted transaction.
 * - If many lines are bad, none is set aside. The pass stops, and the provider keeps the results until the fault is mended.
 * - Lines that time out are left for the next pass. If many do and no line is applied, the database is slow and the pass
 *   stops.
 * - In the last pass a few timed-out lines are tried once more, and set aside if they time out again. If that write times
 *   out as well, or there are many, it throws and no line is set aside.
 *
 * `isWhole`: the chunk is complete, so that an outage of the provider can be detected.
 */
export async function applyHalving(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole: boolean,
): Promise<AppliedChunk> {
  const { applied, bad, slow, isDatabaseSlow } = await halve(deps, batch, lease, lines, isWhole);
  const failures = [...bad, ...slow];
  const [first] = failures;
  if (first === undefined) return applied;
  const isLastPass = batch.streams + 1 >= deps.settings.streams_max;
  if (bad.length > POISON_LINES_MAX || isDatabaseSlow || (isLastPass && slow.length > POISON_LINES_MAX)) {
    throw new Error(
      `${failures.length} lines of one chunk cannot be applied, so none is set aside: ${first.reason}`,
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

/** Applies a line that timed out, or sets it aside if it times out again. Other failures are left for the next pass. */
async function tryOnceMore(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  { line, reason }: FailedLine,
): Promise<AppliedChunk> {
  const { applied, bad, slow } = await halve(deps, batch, lease, [line], false);
  const [other] = bad;
  if (other !== undefined) {
    throw new Error(`line ${line.number} timed out before, and now it cannot be applied: ${other.reason}`);
  }
  return slow.length > 0 ? setAside(deps, batch, lease, line, reason) : applied;
}

/**
 * Applies a few lines, too few to measure how many fail. Failed lines are added to `left` with the reason and wait for a
 * pass in whole chunks.
 * Throws: more lines have failed than a chunk holds, so nearly all fail.
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
    throw new Error(`${left.length} lines cannot be applied, so none is set aside: ${first}`);
  }
  return applied;
}

/**
 * Applies lines by halves until the failing lines are alone.
 * A line applied before counts as progress: it takes a transaction without a write, which is enough to go on without giving
 * up lines. Each part that times out costs a full statement timeout, which for a chunk of many such lines makes hours.
 */
async function halve(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole: boolean,
): Promise<Halved> {
  const parts = [lines];
  /** Parts that timed out. They are tried in halves once a line is applied; before, a retry would only time out again. */
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
  return {
    applied: joinChunks(chunks),
    bad,
    slow,
    isDatabaseSlow: nothingYet && slow.length > POISON_LINES_MAX,
  };
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
      // The cause may be the result of a quick call and not the line. From now on calls go the ordinary way.
      return { chunk: await applyChunk(deps, batch, lease, part, isWhole && tries === 1) };
    } catch (error) {
      const slow = isStatementTimeout(error);
      if (judgeError(error) !== 'poison' && !slow) throw error;
      if (part.length === 1 && isBrokenConstraint(error) && tries < COLLISION_TRIES_MAX) continue;
      return { chunk: null, reason: error instanceof Error ? error.message : 'unknown', slow };
    }
  }
}
