import { memoryNotice, type LineDiff } from '@nightshift/agent-core';
import { commitNotices, commitUntold, readUntoldChanges, type Tx } from '@nightshift/db';
import { structuredPatch } from 'diff';

/** Differing lines beyond which a diff is not sought: its time grows with their square. */
const EDIT_LENGTH_MAX = 1_000;

/**
 * Tells runs what others wrote into their memory since they last saw it, in the transaction that seals their next requests.
 * The message stays in the conversation, so later requests begin with it too. A run that continues its own turn is told
 * before a later request.
 */
export async function tellChanges(trx: Tx, providerBatchId: string): Promise<void> {
  const changes = await readUntoldChanges(trx, providerBatchId);
  if (changes.length === 0) return;
  const byRun = Map.groupBy(changes, ({ run_id }) => run_id);
  const isOpen = (runId: string): boolean => byRun.get(runId)?.[0]?.is_open_turn === true;
  const runIds = [...byRun.keys()];
  await commitNotices(
    trx,
    providerBatchId,
    runIds
      .filter((id) => !isOpen(id))
      .map((run_id) => {
        const text = memoryNotice(byRun.get(run_id) ?? [], lineDiff);
        return { run_id, content_json: JSON.stringify([{ type: 'text', text }]) };
      }),
  );
  await commitUntold(trx, providerBatchId, runIds.filter(isOpen));
}

const lineDiff: LineDiff = (before, after) => {
  const options = { context: 1, maxEditLength: EDIT_LENGTH_MAX };
  const patch = structuredPatch('', '', before, after, '', '', options);
  if (patch === undefined) return null;
  return patch.hunks
    .flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
      `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
      ...lines,
    ])
    .join('\n');
};
