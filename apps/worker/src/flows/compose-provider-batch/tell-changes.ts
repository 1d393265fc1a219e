import { memoryNotice, type LineDiff } from '@nightshift/agent-core';
import { commitNotices, commitUntold, readRunsWithChanges, readUntoldChanges, type Tx } from '@nightshift/db';
import { structuredPatch } from 'diff';

/** Differing lines beyond which a diff is not sought: its time grows with their square. */
const EDIT_LENGTH_MAX = 1_000;

/** Runs whose changes are read together, texts included. */
const PAGE_RUNS = 200;

/**
 * Tells runs what others wrote into their memory since they last saw it, in the transaction that seals their next requests.
 * The message stays in the conversation, so later requests begin with it too. A run that continues its own turn is told
 * before a later request.
 */
export async function tellChanges(trx: Tx, providerBatchId: string): Promise<void> {
  const runIds = await readRunsWithChanges(trx, providerBatchId);
  const lineDiff = createLineDiff();
  for (let at = 0; at < runIds.length; at += PAGE_RUNS) {
    const changes = await readUntoldChanges(trx, providerBatchId, runIds.slice(at, at + PAGE_RUNS));
    const byRun = [...Map.groupBy(changes, ({ run_id }) => run_id)];
    const open = byRun.filter(([, [first]]) => first?.is_open_turn === true).map(([run_id]) => run_id);
    await commitNotices(
      trx,
      providerBatchId,
      byRun
        .filter(([run_id]) => !open.includes(run_id))
        .map(([run_id, theirs]) => {
          const text = memoryNotice(theirs, lineDiff);
          return { run_id, content_json: JSON.stringify([{ type: 'text', text }]) };
        }),
    );
    await commitUntold(trx, providerBatchId, open);
  }
}

/** Creates a diff that remembers its last result: runs that share a block get the same change. */
function createLineDiff(): LineDiff {
  let last: readonly [before: string, after: string, diff: string | null] | null = null;
  return (before, after) => {
    if (last?.[0] !== before || last[1] !== after) last = [before, after, lineDiff(before, after)];
    return last[2];
  };
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
