import type { HeldCopy, KnownLabels } from '@nightshift/agent-core';
import { newId, readHeldDrafts, type RunToDecide, type ShownBlock, type Tx } from '@nightshift/db';
import { ownerOf, seenKey, type OpenBlock, type Seen } from './open-block.ts';

/** The blocks that hold the changes of runs under review. */
export interface Drafts {
  /** What is to be stored of a block before its first change; null for one that is stored, or is nobody's copy. */
  copyOf(block: OpenBlock): HeldCopy | null;
}

export const NO_DRAFTS: Drafts = { copyOf: () => null };

type ReviewedRun = Pick<RunToDecide, 'id' | 'agent_id' | 'batch_id' | 'batch_apply'>;

/** The blocks of a chunk, by the names of {@link ownerOf} and {@link seenKey}. */
interface OpenBlocks {
  readonly attached: Map<string, readonly string[]>;
  readonly open: Map<string, OpenBlock>;
  readonly seen: Map<string, Seen>;
  /** By run. */
  readonly known: Map<string, KnownLabels>;
}

interface Origin {
  readonly copy_of: string;
  readonly base_revision: number;
  readonly base_label: string;
}

/**
 * Gives runs of batches under review blocks of their own: those that hold what their agent has changed in the batch, and
 * for every other block a copy of what the run was shown, which is stored when it is first changed. So nothing that such a
 * run does can meet a change by others; that is judged when its changes are accepted. The agents are locked.
 */
export async function openDrafts(
  trx: Tx,
  runs: readonly ReviewedRun[],
  shown: readonly ShownBlock[],
  { attached, open, seen, known }: OpenBlocks,
): Promise<Drafts> {
  const origins = new Map<string, Origin>();
  const draftsOf = Map.groupBy(
    await readHeldDrafts(trx, runs),
    (draft) => `${draft.batch_id}/${draft.agent_id}`,
  );
  const shownTo = Map.groupBy(shown, (block) => block.run_id);
  for (const run of runs) {
    const texts = new Map((shownTo.get(run.id) ?? []).map((block) => [block.block_id, block]));
    const owner = ownerOf(run);
    const drafts = draftsOf.get(owner) ?? [];
    if (!attached.has(owner)) {
      const standIns = new Map(drafts.map((draft) => [draft.stands_for, draft]));
      const own = (attached.get(run.agent_id) ?? []).flatMap((blockId) => {
        const draft = standIns.get(blockId);
        if (draft !== undefined) return draft.kind === 'detached' ? [] : [draft.block_id];
        const block = open.get(blockId);
        if (block === undefined) return [];
        const text = texts.get(blockId);
        const draftId = newId();
        const asShown =
          text === undefined || text.value === null
            ? {}
            : { value: text.value, description: text.description };
        open.set(draftId, { ...block, block_id: draftId, revision: 1, ...asShown });
        const base_revision = text?.revision ?? block.revision;
        origins.set(draftId, { copy_of: blockId, base_revision, base_label: block.label });
        return [draftId];
      });
      for (const {
        conflict_policy,
        batch_id: _batch,
        agent_id: _agent,
        stands_for: _of,
        kind: _kind,
        ...draft
      } of drafts)
        open.set(draft.block_id, { ...draft, policy: conflict_policy });
      const made = drafts.filter((draft) => draft.kind === 'created').map((draft) => draft.block_id);
      attached.set(owner, [...own, ...made]);
    }
    const labels = new Map(known.get(run.id));
    for (const draftId of attached.get(owner) ?? []) {
      const draft = open.get(draftId);
      if (draft === undefined) continue;
      const standsFor =
        origins.get(draftId)?.copy_of ??
        drafts.find((held) => held.block_id === draftId)?.stands_for ??
        draftId;
      const itself = texts.get(draftId);
      const original = texts.get(standsFor);
      const label = (itself ?? original)?.label;
      if (label !== undefined) labels.set(label, draftId);
      if (itself !== undefined) {
        seen.set(seenKey(run.id, draftId), { revision: itself.revision, value: itself.value ?? draft.value });
      } else if (original !== undefined) {
        const value = original.value ?? open.get(standsFor)?.value ?? draft.value;
        seen.set(seenKey(run.id, draftId), { revision: 1, value });
      }
    }
    known.set(run.id, labels);
  }
  return {
    copyOf(block) {
      const origin = origins.get(block.block_id);
      if (origin === undefined) return null;
      origins.delete(block.block_id);
      const { label, description, value, char_limit, read_only } = block;
      return { kind: 'copied', ...origin, label, description, value, char_limit, read_only };
    },
  };
}
