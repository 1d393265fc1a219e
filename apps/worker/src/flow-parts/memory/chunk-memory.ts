import {
  carryOutMemoryCall,
  CONFLICT_POLICY_DEFAULT,
  NO_MEMORY,
  type BlockChange,
  type BlockWriterCall,
  type Diff3,
  type HeldBlock,
  type KnownLabels,
  type MemoryEffect,
  type MemoryResult,
  type PlannedCall,
  type StepMemory,
  type ToolDefinition,
} from '@nightshift/agent-core';
import {
  lockAgents,
  lockBlocksOfAgents,
  newId,
  readLabelsBeside,
  readOwnTexts,
  readShownBlocks,
  type RunToDecide,
  type Tx,
} from '@nightshift/db';
import { diff3MergeRegions, diffIndices } from 'node-diff3';
import { NO_DRAFTS, openDrafts } from './held-drafts.ts';
import { labelsInUse, mayRename } from './labels-in-use.ts';
import { answerStoreCalls } from './store-calls.ts';
import { ownerOf, seenKey, type OpenBlock, type Seen } from './open-block.ts';

/** The blocks that the memory calls of a chunk of answers may write, as they stand after the writes so far. */
export interface ChunkMemory {
  /** The memory of a run for its present step, whose definition has these tools. */
  of(run: RunToDecide, tools: readonly ToolDefinition[]): StepMemory;
}

/** A run whose present step has been answered with these calls. */
export interface RunWithCalls {
  readonly run: RunToDecide;
  readonly calls: readonly PlannedCall[];
  /** Other memory calls of the answer, which were carried out before; default: none. */
  readonly done?: readonly PlannedCall[];
}

const NONE_KNOWN: KnownLabels = new Map();
const DIFF3: Diff3 = { diff3MergeRegions, diffIndices };
/** Tools that may make, give up or rename blocks, which concerns the agent as a whole. */
const REARRANGING: ReadonlySet<string> = new Set([
  'memory',
  'memory_apply_patch',
  'rethink_memory',
  'memory_rethink',
  'rethink_user_memory',
]);
/** Tools that may take labels from blocks. Whoever has one may also make a block by rewriting what does not exist yet. */
const MAKERS: ReadonlySet<string> = new Set(['memory', 'memory_apply_patch']);

/**
 * Locks the blocks of the agents of `runs`, whose present steps have been answered with memory calls. Each call is judged
 * by what its request showed, with the run's own edits since, and by the policy of the block; what one run does to a shared
 * block is there for the next.
 */
export async function openChunkMemory(trx: Tx, runs: readonly RunWithCalls[]): Promise<ChunkMemory> {
  if (runs.length === 0) return { of: () => NO_MEMORY };
  const agentIds = runs.map(({ run }) => run.agent_id);
  const rearranging = runs.filter(({ calls }) => calls.some((call) => REARRANGING.has(call.tool_name)));
  const reviewed = runs.filter(({ run }) => run.batch_apply === 'review').map(({ run }) => run);
  if (rearranging.length + reviewed.length > 0) await lockAgents(trx, agentIds);
  const locked = await lockBlocksOfAgents(trx, agentIds);
  const shown = await readShownBlocks(
    trx,
    runs.map(({ run }) => ({ run_id: run.id, number: run.step_number, attempt: run.attempt })),
  );
  const isRenaming = rearranging.some(({ calls }) => calls.some(mayRename));
  const used = isRenaming
    ? await readLabelsBeside(
        trx,
        locked.map((block) => block.block_id),
      )
    : [];
  const labels = labelsInUse(used);

  const attached = new Map<string, readonly string[]>(
    [...Map.groupBy(locked, (block) => block.agent_id)].map(([agentId, blocks]) => [
      agentId,
      blocks.map((block) => block.block_id),
    ]),
  );
  const open = new Map(
    locked.map(({ agent_id: _agent, conflict_policy, ...block }): [string, OpenBlock] => [
      block.block_id,
      { ...block, policy: conflict_policy },
    ]),
  );
  const seen = new Map<string, Seen>(
    shown.map(({ run_id, block_id, revision, value }) => [
      seenKey(run_id, block_id),
      { revision, value: value ?? open.get(block_id)?.value ?? '' },
    ]),
  );
  const known = new Map(
    [...Map.groupBy(shown, (block) => block.run_id)].map(([runId, blocks]): [string, KnownLabels] => [
      runId,
      new Map(blocks.map(({ label, block_id }) => [label, block_id])),
    ]),
  );
  const store = await answerStoreCalls(trx, runs);
  const drafts =
    reviewed.length === 0
      ? NO_DRAFTS
      : await openDrafts(trx, reviewed, shown, { attached, open, seen, known });
  const edited = runs.flatMap(({ run, done = [] }) =>
    (done.length > 0 ? (attached.get(ownerOf(run)) ?? []) : []).map((block_id) => ({
      ...{ run_id: run.id, step_number: run.step_number, block_id },
      shown: seen.get(seenKey(run.id, block_id))?.revision ?? 0,
    })),
  );
  for (const { run_id, block_id, revision, value } of await readOwnTexts(trx, edited))
    seen.set(seenKey(run_id, block_id), { revision, value });
  // Which labels those calls gave to which blocks is not kept with the step: the answer goes on with the labels of now.
  for (const { run, done = [] } of runs) {
    if (!done.some((call) => MAKERS.has(call.tool_name))) continue;
    const labels = [...(known.get(run.id) ?? NONE_KNOWN).keys()];
    known.set(run.id, new Map(labels.map((label) => [label, null])));
  }

  const holdFor = (run: RunToDecide): readonly HeldBlock[] =>
    (attached.get(ownerOf(run)) ?? []).flatMap((blockId) => {
      const block = open.get(blockId);
      if (block === undefined) return [];
      const { policy, writer_run_id, ...current } = block;
      const changed_by = writer_run_id === null ? 'person' : 'run';
      return [{ current, seen: seen.get(seenKey(run.id, blockId)) ?? null, policy, changed_by }];
    });

  /** Takes an effect over into the blocks as they stand, and notes what is to be written. */
  const record = (effect: MemoryEffect, writer: BlockWriterCall, changes: BlockChange[]): void => {
    const { block_id } = effect;
    if (effect.kind === 'create') {
      const { label, description, value, char_limit } = effect;
      const block = { block_id, revision: 1, label, description, value, char_limit, read_only: false };
      open.set(block_id, { ...block, policy: CONFLICT_POLICY_DEFAULT, writer_run_id: writer.run_id });
      if (!writer.held) labels.put(writer.agent_id, block_id, label);
      changes.push({ ...writer, kind: 'created', block_id, label, description, value, char_limit });
      return;
    }
    const block = open.get(block_id);
    if (block === undefined) throw new Error('A memory call changed a block that was not locked.');
    const copy = drafts.copyOf(block);
    if (copy !== null) changes.push({ ...writer, block_id, ...copy });
    if (effect.kind === 'detach') {
      labels.remove(writer.agent_id, block_id);
      changes.push({ ...writer, kind: 'detached', block_id, label: block.label });
    } else if (effect.kind === 'rename') {
      const { new_label } = effect;
      open.set(block_id, { ...block, label: new_label });
      labels.rename(block_id, new_label);
      changes.push({ ...writer, kind: 'renamed', block_id, label: block.label, new_label });
    } else {
      const revision = block.revision + 1;
      const written =
        effect.kind === 'write'
          ? { value: effect.value, description: block.description }
          : { value: block.value, description: effect.description };
      const about =
        effect.kind === 'write'
          ? { based_on_revision: effect.based_on_revision, resolution: effect.resolution }
          : { based_on_revision: effect.based_on_revision, resolution: 'clean' as const };
      open.set(block_id, { ...block, ...written, revision, writer_run_id: writer.run_id });
      changes.push({ ...writer, kind: 'revised', block_id, revision, ...written, ...about });
    }
  };

  const carryOut = (run: RunToDecide, call: PlannedCall, tools: readonly ToolDefinition[]): MemoryResult => {
    const writer = {
      project_id: run.project_id,
      batch_id: run.batch_id,
      run_id: run.id,
      agent_id: run.agent_id,
      step_number: run.step_number,
      tool_use_id: call.tool_use_id,
      held: run.batch_apply === 'review',
    };
    const answered = store.outcomeOf(call);
    if (answered !== null) {
      const passage = store.passageOf(call, writer);
      return { outcome: answered, changes: passage === null ? [] : [passage] };
    }
    const carriedOut = carryOutMemoryCall(call.tool_name, call.args, holdFor(run), {
      newBlockId: newId,
      may_create: tools.some((tool) => MAKERS.has(tool.name)),
      isLabelTaken: (blockId, label, drafted) => labels.isTaken(run.agent_id, blockId, label, drafted),
      known: known.get(run.id) ?? NONE_KNOWN,
      diff3: DIFF3,
    });
    const { outcome, effects, held } = carriedOut;
    known.set(run.id, carriedOut.known);
    const changes: BlockChange[] = [];
    for (const effect of effects) record(effect, writer, changes);
    for (const block of held) {
      if (block.seen !== null) seen.set(seenKey(run.id, block.current.block_id), block.seen);
    }
    attached.set(
      ownerOf(run),
      held.map(({ current }) => current.block_id),
    );
    return { outcome, changes };
  };
  return { of: (run, tools) => ({ carryOut: (call) => carryOut(run, call, tools) }) };
}
