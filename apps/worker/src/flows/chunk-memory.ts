import {
  applyMemoryTool,
  changedSinceShown,
  rewritesWholeBlock,
  type BlockView,
  type PlannedCall,
  type ToolOutcome,
} from '@nightshift/agent-core';
import {
  lockBlocksOfAgents,
  readShownBlocks,
  type LockedBlock,
  type LockedRun,
  type NewBlockRevision,
  type Tx,
} from '@nightshift/db';

/** The blocks that the memory calls of a chunk of answers may write, as they stand after the writes so far. */
export interface ChunkMemory {
  /** Carries out one call of a built-in memory tool. Calls of a run come in their order. */
  carryOut(run: LockedRun, call: PlannedCall): ToolOutcome;
  /** What was written, to be committed in the same transaction. */
  readonly revisions: readonly NewBlockRevision[];
}

type RunWithMemory = Pick<LockedRun, 'id' | 'agent_id' | 'step_number' | 'attempt'>;

/** What a run knows of a block: `revision` is what it saw, and what it saw is in force up to `same_until`. */
interface Seen {
  readonly revision: number;
  readonly same_until: number;
}

/**
 * Locks the blocks of the agents of `runs`, whose present steps have been answered with memory calls. Edits in place
 * apply to a block as it is now; a rewrite of a whole block is carried out only where the block still holds what the
 * request showed, with the run's own edits since: it would undo anybody else's.
 */
export async function openChunkMemory(trx: Tx, runs: readonly RunWithMemory[]): Promise<ChunkMemory> {
  if (runs.length === 0) return { revisions: [], carryOut: () => failNoMemory() };
  const locked = await lockBlocksOfAgents(
    trx,
    runs.map((run) => run.agent_id),
  );
  const shown = await readShownBlocks(
    trx,
    runs.map((run) => ({ run_id: run.id, number: run.step_number, attempt: run.attempt })),
  );
  const idsOfAgent = Map.groupBy(locked, (block) => block.agent_id);
  const current = new Map<string, LockedBlock>(locked.map((block) => [block.block_id, block]));
  const seen = new Map<string, Seen>(shown.map((block) => [seenKey(block.run_id, block.block_id), block]));
  const revisions: NewBlockRevision[] = [];

  return {
    revisions,
    carryOut(run, call) {
      const blocks = (idsOfAgent.get(run.agent_id) ?? []).flatMap(
        ({ block_id }) => current.get(block_id) ?? [],
      );
      const { outcome, write } = applyMemoryTool(call.tool_name, call.args, blocks);
      const block = write === null ? undefined : current.get(write.block_id);
      if (write === null || block === undefined) return outcome;
      const key = seenKey(run.id, block.block_id);
      const known = seen.get(key);
      const isAsSeen = known?.same_until === block.revision;
      const isRewrite = rewritesWholeBlock(call.tool_name);
      if (isRewrite && !isAsSeen) {
        return changedSinceShown(call.tool_name, block, block.writer_run_id === null ? 'person' : 'run');
      }
      const revision = block.revision + 1;
      current.set(block.block_id, { ...block, revision, value: write.value, writer_run_id: run.id });
      // An edit on top of somebody else's does not show the run what that one was.
      if (isAsSeen) seen.set(key, { revision, same_until: revision });
      revisions.push({
        block_id: block.block_id,
        based_on_revision: isRewrite && known !== undefined ? known.revision : block.revision,
        revision,
        value: write.value,
        run_id: run.id,
        batch_id: run.batch_id,
        step_number: run.step_number,
        tool_use_id: call.tool_use_id,
      });
      return outcome;
    },
  };
}

function seenKey(runId: string, blockId: BlockView['block_id']): string {
  return `${runId}/${blockId}`;
}

function failNoMemory(): never {
  throw new Error('A memory call was planned for a run whose blocks were not locked.');
}
