import type { Batch, BatchProgress } from '@nightshift/client';
import { failedOf } from './ended.ts';
import { CommandError, EXIT } from './failure.ts';
import { milestoneOf, progressBar, progressLine } from './progress-bar.ts';
import type { Session } from './session.ts';
import { allOf, take } from './take.ts';
import { countOfNoun, dollarsOf, listOf } from './words.ts';

/** Milliseconds between two looks at the cost, which the progress has not. */
const COST_MS = 5_000;

/**
 * Follows a batch to its end: a bar on a terminal, else a line per tenth. `onChange` gets each progress.
 * Throws: a command error with exit code 130 after Ctrl-C, that says the batch goes on.
 */
export async function follow(
  session: Session,
  id: string,
  onChange: (progress: BatchProgress) => void = () => undefined,
): Promise<Batch> {
  const { client, out, signal } = session;
  const show = createDisplay(session, id);
  out.atClosedPipe(null);
  try {
    const batch = await client.batches.wait(id, {
      signal,
      onProgress: (progress) => {
        onChange(progress);
        show(progress);
      },
    });
    out.atClosedPipe(exitCodeOf(batch));
    out.draw('');
    out.note(summaryOf(batch, await countAtStepLimit(client, batch)));
    return batch;
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandError(
      `Interrupted; the batch goes on. Follow it again with nightshift watch ${id}, or end it with nightshift cancel ${id}.`,
      EXIT.interrupted,
    );
  }
}

/** Returns the exit code of an ended batch: 1 if runs failed or expired, or the batch was cancelled or failed. */
export function exitCodeOf(batch: Batch): number {
  return failedOf(batch) > 0 || batch.state !== 'completed' ? EXIT.failed : EXIT.ok;
}

/** Most runs at their step limit that are counted: a page. */
const COUNTED_MAX = 100;

/** Counts completed runs that `max_steps` ended, which may lack their last answer. A summary does without the count. */
async function countAtStepLimit(client: Session['client'], { id, counts }: Batch): Promise<string> {
  if (counts.completed === 0) return '';
  const query = { batch_id: id, state: 'completed', stop_reason: 'max_steps', limit: COUNTED_MAX } as const;
  const { length: count } = await allOf(take(client.runs.list(query), COUNTED_MAX)).catch(() => []);
  if (count === 0) return '';
  return ` (${count}${count === COUNTED_MAX ? ' or more' : ''} at their step limit)`;
}

/** Says how a batch ended, and what to do next. */
function summaryOf(batch: Batch, atStepLimit: string): string {
  const { id, state, state_reason: reason, counts, usage, apply } = batch;
  const ends = (['completed', 'failed', 'expired', 'cancelled'] as const)
    .filter((end) => counts[end] > 0)
    .map((end) => `${countOfNoun(counts[end], 'run')} ${end}${end === 'completed' ? atStepLimit : ''}`);
  const next =
    failedOf(batch) > 0
      ? `nightshift errors ${id} shows why, nightshift retry ${id} tries them again.`
      : apply === 'review'
        ? `nightshift memory review ${id} shows its changes, none of which is in force yet.`
        : `nightshift results ${id} downloads the results.`;
  const because = reason === null ? '' : ` (${reason})`;
  return `${id} ${state}${because}: ${listOf(ends) || 'no runs'}, ${dollarsOf(usage.cost_usd)}. ${next}`;
}

/** Creates a function that shows progress on stderr. */
function createDisplay({ client, out }: Session, id: string): (progress: BatchProgress) => void {
  let cost: string | null | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  let milestone: string | undefined;
  let latest: BatchProgress | undefined;
  const show = (progress: BatchProgress): void => {
    const shown = { progress, cost, now: Date.now() };
    if (out.isTerminal) out.draw(progressBar(shown, out.columns));
    else if (milestone !== milestoneOf(progress)) out.note(progressLine(shown));
    milestone = milestoneOf(progress);
  };
  const askCost = (): void => {
    if (performance.now() - askedAt < COST_MS) return;
    askedAt = performance.now();
    client.batches.retrieve(id).then(
      ({ usage }) => {
        cost = usage.cost_usd;
        if (out.isTerminal && latest !== undefined && latest.phase !== 'done') show(latest);
      },
      // A later look may answer; the progress shows whether the API is away.
      () => undefined,
    );
  };
  return (progress) => {
    latest = progress;
    if (progress.phase !== 'done') askCost();
    show(progress);
  };
}
