import type { BlockChange, BlockWriterCall } from '../model/block-change.ts';
import type { PlannedCall } from '../model/planned-call.ts';
import type { StepMemory } from '../model/tool-call.ts';
import type { ToolDefinition } from '../model/tool.ts';
import { carryOutMemoryCall, type MemoryCallOptions, type MemoryCallOutcome } from './carry-out.ts';
import { mayRename } from './labels-in-use.ts';
import type { Diff3 } from './merge.ts';
import {
  applyEffect,
  heldBy,
  openStored,
  ownerOf,
  seenKey,
  type OpenBlocks,
  type RememberingRun,
  type RunWithCalls,
  type StoredMemory,
} from './open-blocks.ts';
import { openDrafts } from './open-drafts.ts';
import type { KnownLabels, WritableLabels } from './refusal.ts';
import type { StoreAnswer, StoreAnswers } from './store-answers.ts';

/** Tools that may create, detach or rename blocks, which concerns the whole agent. */
const REARRANGING_TOOLS: ReadonlySet<string> = new Set([
  'memory',
  'memory_apply_patch',
  'rethink_memory',
  'memory_rethink',
  'rethink_user_memory',
]);
/**
 * Tools that may take labels from blocks. An agent with such a tool may also create a block by rewriting a missing
 * block.
 */
const LABEL_TOOLS: ReadonlySet<string> = new Set(['memory', 'memory_apply_patch']);
const NONE_KNOWN: KnownLabels = new Map();

/** Locks and reads for memory calls, besides the blocks of their agents. */
export interface MemoryNeeds {
  /** Locks agents whose blocks may come or go, or whose changes are held. */
  readonly agents: boolean;
  /** Reads the labels of other agents that share a block, which may be renamed. */
  readonly labels: boolean;
  /** Runs whose changes are held in drafts. */
  readonly reviewed: readonly RememberingRun[];
}

/** Returns the locks and reads that memory calls need. */
export function memoryNeeds(runs: readonly RunWithCalls[]): MemoryNeeds {
  const reviewed = reviewedRuns(runs);
  const some = (test: (call: PlannedCall) => boolean): boolean => runs.some(({ calls }) => calls.some(test));
  const isRearranging = some(({ tool_name }) => REARRANGING_TOOLS.has(tool_name));
  return { agents: isRearranging || reviewed.length > 0, labels: some(mayRename), reviewed };
}

function reviewedRuns(runs: readonly RunWithCalls[]): readonly RememberingRun[] {
  return runs.flatMap(({ run }) => (run.batch_apply === 'review' ? [run] : []));
}

/**
 * Opens the blocks that the memory calls of a chunk may write.
 * The labels given by earlier calls of a step are not stored: after a call that may have given a label, the present
 * labels apply.
 */
export function openBlocks(
  runs: readonly RunWithCalls[],
  stored: StoredMemory,
  newId: () => string,
): OpenBlocks {
  const blocks = openStored(stored);
  const reviewed = reviewedRuns(runs);
  if (reviewed.length > 0) openDrafts(blocks, reviewed, stored, newId);
  for (const { run, done = [] } of runs) {
    if (!done.some((call) => LABEL_TOOLS.has(call.tool_name))) continue;
    const labels = [...(blocks.known.get(run.id) ?? NONE_KNOWN).keys()];
    blocks.known.set(run.id, new Map(labels.map((label) => [label, null])));
  }
  return blocks;
}

/** A block that earlier calls of a run's present step may have written. */
export interface EditedBlock {
  readonly run_id: string;
  readonly step_number: number;
  readonly block_id: string;
  /** The revision shown to the run; 0 for none. */
  readonly shown: number;
}

/** Returns the blocks whose texts a run may know from its earlier calls. */
export function editedBlocks(blocks: OpenBlocks, runs: readonly RunWithCalls[]): readonly EditedBlock[] {
  return runs.flatMap(({ run, done = [] }) =>
    (done.length > 0 ? (blocks.attached.get(ownerOf(run)) ?? []) : []).map((block_id) => ({
      run_id: run.id,
      step_number: run.step_number,
      block_id,
      shown: blocks.seen.get(seenKey(run.id, block_id))?.revision ?? 0,
    })),
  );
}

/** A text written by the run alone. */
export interface OwnText {
  readonly run_id: string;
  readonly block_id: string;
  readonly revision: number;
  readonly value: string;
}

/** Makes runs know the texts that they wrote themselves. */
export function recallTexts({ seen }: OpenBlocks, texts: readonly OwnText[]): void {
  for (const { run_id, block_id, revision, value } of texts)
    seen.set(seenKey(run_id, block_id), { revision, value });
}

/** Libraries and ids passed in, to keep the core free of them. */
export interface MemoryTools {
  readonly newId: () => string;
  readonly diff3: Diff3;
}

/** The parts of a run's definition that limit its memory calls. */
export interface MemoryPolicy {
  readonly tools: readonly ToolDefinition[];
  readonly writable_labels: WritableLabels;
}

/**
 * Opens the memory of a run for its present step, under the policy of its definition.
 * Each call is judged by its request's view, with the run's own edits since, and by the block's policy. The next run
 * sees the changes of a shared block.
 */
export function memoryOfStep(
  blocks: OpenBlocks,
  store: StoreAnswers,
  run: RememberingRun,
  { tools, writable_labels }: MemoryPolicy,
  { newId, diff3 }: MemoryTools,
): StepMemory {
  return {
    carryOut(call) {
      const writer = writerOf(run, call);
      const answer = store.get(call);
      if (answer !== undefined) return { outcome: answer.outcome, changes: keptBy(answer, writer, newId) };
      const options = {
        newBlockId: newId,
        may_create: tools.some((tool) => LABEL_TOOLS.has(tool.name)),
        isLabelTaken: (blockId, label, drafted) =>
          blocks.labels.isTaken(run.agent_id, blockId, label, drafted),
        known: blocks.known.get(run.id) ?? NONE_KNOWN,
        writable_labels,
        diff3,
      } satisfies MemoryCallOptions;
      const done = carryOutMemoryCall(call.tool_name, call.args, heldBy(blocks, run), options);
      const changes = done.effects.flatMap((effect) => applyEffect(blocks, effect, writer));
      noteKnown(blocks, run, done);
      return { outcome: done.outcome, changes };
    },
  };
}

function noteKnown(blocks: OpenBlocks, run: RememberingRun, { known, held }: MemoryCallOutcome): void {
  blocks.known.set(run.id, known);
  for (const { seen, current } of held)
    if (seen !== null) blocks.seen.set(seenKey(run.id, current.block_id), seen);
  blocks.attached.set(
    ownerOf(run),
    held.map(({ current }) => current.block_id),
  );
}

function keptBy(
  { keeps }: StoreAnswer,
  writer: BlockWriterCall,
  newId: () => string,
): readonly BlockChange[] {
  if (keeps === null) return [];
  const { content, tags } = keeps;
  return [{ ...writer, kind: 'kept', passage_id: newId(), content, tags }];
}

function writerOf(run: RememberingRun, { tool_use_id }: PlannedCall): BlockWriterCall {
  const { id: run_id, project_id, batch_id, agent_id, step_number, batch_apply } = run;
  return {
    project_id,
    batch_id,
    run_id,
    agent_id,
    step_number,
    tool_use_id,
    held: batch_apply === 'review',
  };
}
