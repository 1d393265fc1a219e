import {
  blockOf,
  ownerOf,
  seenKey,
  type OpenBlocks,
  type RememberingRun,
  type ShownBlock,
  type StoredDraft,
  type StoredMemory,
} from './open-blocks.ts';

/** Blocks as shown to a run, by id. */
type ShownTexts = ReadonlyMap<string, ShownBlock>;
/** Original block of each draft, by the draft's id. */
type StandIns = ReadonlyMap<string, string>;

/**
 * Gives runs of batches under review their own blocks: the drafts of their agent's changes in the batch.
 * Every other block is a copy of the shown block, stored on its first change. So no change of such a run can conflict
 * before its changes are accepted.
 */
export function openDrafts(
  blocks: OpenBlocks,
  runs: readonly RememberingRun[],
  { shown, drafts }: Pick<StoredMemory, 'shown' | 'drafts'>,
  newId: () => string,
): void {
  const draftsOf = Map.groupBy(drafts, (draft) => `${draft.batch_id}/${draft.agent_id}`);
  const shownTo = Map.groupBy(shown, (block) => block.run_id);
  const standInsOf = new Map<string, StandIns>();
  for (const run of runs) {
    const owner = ownerOf(run);
    const texts = new Map((shownTo.get(run.id) ?? []).map((block) => [block.block_id, block]));
    let standIns = standInsOf.get(owner);
    if (standIns === undefined) {
      standIns = openStandIns(blocks, run, draftsOf.get(owner) ?? [], texts, newId);
      standInsOf.set(owner, standIns);
      blocks.attached.set(owner, [...standIns.keys()]);
    }
    noteShown(blocks, run, standIns, texts);
  }
}

/** Opens the drafts of an agent, and copies of its blocks without a draft. A detached block has neither. */
function openStandIns(
  { attached, open, copies }: OpenBlocks,
  run: RememberingRun,
  drafts: readonly StoredDraft[],
  texts: ShownTexts,
  newId: () => string,
): StandIns {
  for (const draft of drafts) {
    const {
      conflict_policy,
      agent_id: _agent,
      batch_id: _batch,
      stands_for: _of,
      kind: _kind,
      ...block
    } = draft;
    open.set(block.block_id, { ...block, policy: conflict_policy });
  }
  const draftOf = new Map(drafts.map((draft) => [draft.stands_for, draft]));
  const standIns = new Map<string, string>();
  for (const blockId of attached.get(run.agent_id) ?? []) {
    const draft = draftOf.get(blockId);
    if (draft === undefined)
      standIns.set(copyBlock({ open, copies }, blockId, texts.get(blockId), newId), blockId);
    else if (draft.kind !== 'detached') standIns.set(draft.block_id, blockId);
  }
  for (const { kind, block_id } of drafts) if (kind === 'created') standIns.set(block_id, block_id);
  return standIns;
}

/** Opens a copy of a block as shown to the run, or as stored. Returns the id of the copy. */
function copyBlock(
  { open, copies }: Pick<OpenBlocks, 'open' | 'copies'>,
  blockId: string,
  text: ShownBlock | undefined,
  newId: () => string,
): string {
  const block = blockOf(open, blockId);
  const copyId = newId();
  const asShown =
    text === undefined || text.value === null ? {} : { value: text.value, description: text.description };
  open.set(copyId, { ...block, block_id: copyId, revision: 1, ...asShown });
  const base_revision = text?.revision ?? block.revision;
  copies.set(copyId, { copy_of: blockId, base_revision, base_label: block.label });
  return copyId;
}

/** Notes the text and label shown to the run for each draft: the draft's own, or the original block's. */
function noteShown(
  { open, seen, known }: OpenBlocks,
  run: RememberingRun,
  standIns: StandIns,
  texts: ShownTexts,
): void {
  const labels = new Map(known.get(run.id));
  for (const [draftId, blockId] of standIns) {
    const itself = texts.get(draftId);
    const shown = itself ?? texts.get(blockId);
    if (shown === undefined) continue;
    labels.set(shown.label, draftId);
    const value = shown.value ?? blockOf(open, shown.block_id).value;
    seen.set(seenKey(run.id, draftId), { revision: itself?.revision ?? 1, value });
  }
  known.set(run.id, labels);
}
