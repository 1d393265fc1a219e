import type { BlockWriterCall, BlockChange, HeldCopy } from '../model/block-change.ts';
import type { BlockView } from '../model/block.ts';
import type { PlannedCall } from '../model/planned-call.ts';
import type { HeldBlock } from './carry-out.ts';
import { CONFLICT_POLICY_DEFAULT, type ConflictPolicy } from './conflict.ts';
import type { MemoryEffect } from './effects.ts';
import { labelsInUse, type LabelsInUse, type UsedLabel } from './labels-in-use.ts';
import type { KnownLabels } from './refusal.ts';

/** A run whose memory calls are carried out. */
export interface RememberingRun {
  readonly id: string;
  readonly project_id: string;
  readonly batch_id: string;
  /** Whether its memory changes take effect at once, or are held. */
  readonly batch_apply: 'auto' | 'review';
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly step_number: number;
}

/** A run whose present step was answered with these memory calls. */
export interface RunWithCalls {
  readonly run: RememberingRun;
  readonly calls: readonly PlannedCall[];
  /**
   * Other memory calls of the answer, carried out before.
   * Default: none.
   */
  readonly done?: readonly PlannedCall[];
}

/** A block attached to an agent, at its present revision. */
export interface StoredBlock extends BlockView {
  readonly agent_id: string;
  readonly conflict_policy: ConflictPolicy;
  /** The run that wrote the present revision; null for a person. */
  readonly writer_run_id: string | null;
}

/** A block as a step's request showed it. */
export interface ShownBlock {
  readonly run_id: string;
  readonly block_id: string;
  /** The revision shown by the request. */
  readonly revision: number;
  /** The label shown by the request; for steps sealed before labels were stored, the present label. */
  readonly label: string;
  /** The value of that revision; null when the head has the same value and description. */
  readonly value: string | null;
  /** The description of that revision, with a value. */
  readonly description: string | null;
}

/** A block that holds an agent's changes in a batch under review. */
export interface StoredDraft extends StoredBlock {
  readonly batch_id: string;
  /** The original block; a new block is its own original. */
  readonly stands_for: string;
  readonly kind: 'revised' | 'created' | 'detached' | 'dropped';
}

/** The rows that the memory calls of a chunk work on. */
export interface StoredMemory {
  /** The blocks of every agent, in attach order, locked. */
  readonly locked: readonly StoredBlock[];
  readonly shown: readonly ShownBlock[];
  /** All labels of agents that share a block; none where no call renames a block. */
  readonly labels: readonly UsedLabel[];
  /** The drafts of agents of batches under review. */
  readonly drafts: readonly StoredDraft[];
}

/** A block while the memory calls of a chunk are carried out. */
export interface OpenBlock extends BlockView {
  readonly policy: ConflictPolicy;
  readonly writer_run_id: string | null;
}

/** The blocks of a chunk after the calls so far, and the texts and labels that each run knows. */
export interface OpenBlocks {
  /** Block ids in attach order, by {@link ownerOf}. */
  readonly attached: Map<string, readonly string[]>;
  readonly open: Map<string, OpenBlock>;
  /** By {@link seenKey}. */
  readonly seen: Map<string, NonNullable<HeldBlock['seen']>>;
  /** By run. */
  readonly known: Map<string, KnownLabels>;
  readonly labels: LabelsInUse;
  /** The first revisions of drafts that are not stored yet. */
  readonly copies: Map<string, Pick<HeldCopy, 'copy_of' | 'base_revision' | 'base_label'>>;
}

/** Returns the key of a run's list of blocks: its agent's, or its agent's in a batch under review. */
export function ownerOf(run: Pick<RememberingRun, 'agent_id' | 'batch_id' | 'batch_apply'>): string {
  return run.batch_apply === 'review' ? `${run.batch_id}/${run.agent_id}` : run.agent_id;
}

/** Returns the key of a run's view of a block. */
export function seenKey(runId: string, blockId: string): string {
  return `${runId}/${blockId}`;
}

/** Opens the locked blocks as stored. Drafts are opened by `openDrafts`. */
export function openStored({ locked, shown, labels }: StoredMemory): OpenBlocks {
  const attached = Map.groupBy(locked, (block) => block.agent_id);
  const open = new Map(
    locked.map(({ agent_id: _agent, conflict_policy: policy, ...block }): [string, OpenBlock] => [
      block.block_id,
      { ...block, policy },
    ]),
  );
  const knownTo = Map.groupBy(shown, (block) => block.run_id);
  return {
    attached: new Map([...attached].map(([id, blocks]) => [id, blocks.map(({ block_id }) => block_id)])),
    open,
    seen: new Map(
      shown.map(({ run_id, block_id, revision, value }) => [
        seenKey(run_id, block_id),
        { revision, value: value ?? open.get(block_id)?.value ?? '' },
      ]),
    ),
    known: new Map(
      [...knownTo].map(([id, blocks]) => [
        id,
        new Map(blocks.map(({ label, block_id }) => [label, block_id])),
      ]),
    ),
    labels: labelsInUse(labels),
    copies: new Map(),
  };
}

/**
 * Returns an open block.
 * Throws: for any other block.
 */
export function blockOf(open: OpenBlocks['open'], blockId: string): OpenBlock {
  const block = open.get(blockId);
  if (block === undefined) throw new Error('A memory call was made on a block that was not locked.');
  return block;
}

/** Returns the blocks for the next call of a run. */
export function heldBy({ attached, open, seen }: OpenBlocks, run: RememberingRun): readonly HeldBlock[] {
  return (attached.get(ownerOf(run)) ?? []).map((blockId) => {
    const { policy, writer_run_id, ...current } = blockOf(open, blockId);
    const changed_by = writer_run_id === null ? 'person' : 'run';
    return { current, seen: seen.get(seenKey(run.id, blockId)) ?? null, policy, changed_by };
  });
}

/** Applies an effect to the open blocks. Returns the changes to write, a draft's copy before its change. */
export function applyEffect(
  blocks: OpenBlocks,
  effect: MemoryEffect,
  writer: BlockWriterCall,
): readonly BlockChange[] {
  const { block_id } = effect;
  const { open, labels } = blocks;
  if (effect.kind === 'create') {
    const { kind: _kind, ...block } = effect;
    const policy = CONFLICT_POLICY_DEFAULT;
    open.set(block_id, { ...block, revision: 1, read_only: false, policy, writer_run_id: writer.run_id });
    if (!writer.held) labels.put(writer.agent_id, block_id, block.label);
    return [{ ...writer, kind: 'created', ...block }];
  }
  const block = blockOf(open, block_id);
  const copy = takeCopy(blocks, block);
  const change = applyChange(blocks, effect, block, writer);
  return copy === null ? [change] : [{ ...writer, block_id, ...copy }, change];
}

function applyChange(
  { open, labels }: OpenBlocks,
  effect: Exclude<MemoryEffect, { kind: 'create' }>,
  block: OpenBlock,
  writer: BlockWriterCall,
): BlockChange {
  const { block_id, label } = block;
  switch (effect.kind) {
    case 'detach':
      labels.remove(writer.agent_id, block_id);
      return { ...writer, kind: 'detached', block_id, label };
    case 'rename': {
      const { new_label } = effect;
      open.set(block_id, { ...block, label: new_label });
      labels.rename(block_id, new_label);
      return { ...writer, kind: 'renamed', block_id, label, new_label };
    }
    default: {
      const revision = block.revision + 1;
      const isWrite = effect.kind === 'write';
      const value = isWrite ? effect.value : block.value;
      const description = isWrite ? block.description : effect.description;
      open.set(block_id, { ...block, value, description, revision, writer_run_id: writer.run_id });
      const { based_on_revision } = effect;
      const resolution = isWrite ? effect.resolution : 'clean';
      return {
        ...writer,
        ...{ kind: 'revised', block_id, revision, value, description, based_on_revision, resolution },
      };
    }
  }
}

/** Returns the first revision of a draft before its first change; null for a stored block. */
function takeCopy({ copies }: OpenBlocks, block: OpenBlock): HeldCopy | null {
  const origin = copies.get(block.block_id);
  if (origin === undefined) return null;
  copies.delete(block.block_id);
  const { label, description, value, char_limit, read_only } = block;
  return { kind: 'copied', ...origin, label, description, value, char_limit, read_only };
}
