import type { CommitReport } from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import type { FlowDeps } from './deps.ts';

/** Sends the signals of a commit. Called after the commit, never inside it. */
export async function ringAfterCommit(
  { bell }: Pick<FlowDeps, 'bell'>,
  report: CommitReport,
  finishedBatchIds: readonly string[],
): Promise<void> {
  const signals: Signal[] = finishedBatchIds.map((id) => ({ kind: 'finish', id }));
  if (report.ready) signals.push({ kind: 'compose', id: '*' });
  if (report.tools) signals.push({ kind: 'tools', id: '*' });
  if (signals.length > 0) await bell.ring(signals);
}
