/** Changes of an agent to a block, held for review. */
export interface HeldFacts {
  readonly agent_id: string;
  readonly block_id: string;
  readonly kind: 'revised' | 'created' | 'detached' | 'dropped';
  /** Whether the block is deleted, and whether it still equals the base of the changes. */
  readonly is_deleted: boolean;
  readonly is_unchanged: boolean;
  /** Whether the block is now read-only, and whether the new text exceeds its present limit. */
  readonly is_read_only: boolean;
  readonly is_over_limit: boolean;
  /** Whether the changes alter text or description. */
  readonly is_written: boolean;
  /** The new label, and the old label; null for a new block. */
  readonly label: string;
  readonly base_label: string | null;
}

/** A label used by an agent. */
export interface LabelInUse {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
}

/** Reasons why held changes cannot be accepted. */
export type StaleReason = 'edited' | 'deleted' | 'read_only' | 'over_limit' | 'label_taken';

/**
 * Decides for each held change, in order, whether it may take effect with the others: null, or the reason.
 * A block takes the changes of the first agent that takes effect and alters it; changes of other agents have lost their
 * base. No agent may end up with two blocks of a label; `labels` are all that these agents use.
 */
export function planAccept(
  held: readonly HeldFacts[],
  labels: readonly LabelInUse[],
): readonly (StaleReason | null)[] {
  const clashing = new Set<string>();
  for (;;) {
    const verdicts = refuseClashes(held, judgeWithoutLabels(held, clashing), labels);
    const fresh = held.filter(
      (change, index) => verdicts[index] === 'label_taken' && !clashing.has(requestedLabel(change)),
    );
    if (fresh.length === 0) return verdicts;
    // A change refused for its label does not use up its block: the others are judged again without it, and without
    // changes to the same block and label.
    for (const change of fresh) clashing.add(requestedLabel(change));
  }
}

/** Returns the block and label that a change asks for. */
function requestedLabel({ block_id, label }: HeldFacts): string {
  return `${block_id}/${label}`;
}

/** Judges changes without labels, except for known clashes. */
function judgeWithoutLabels(
  held: readonly HeldFacts[],
  clashing: ReadonlySet<string>,
): readonly (StaleReason | null)[] {
  const changed = new Set<string>();
  return held.map((change): StaleReason | null => {
    if (change.kind === 'dropped') return null;
    if (change.is_deleted) return 'deleted';
    if (!change.is_unchanged) return 'edited';
    if (change.is_read_only) return 'read_only';
    if (change.is_over_limit) return 'over_limit';
    if (change.kind === 'detached') return null;
    if (clashing.has(requestedLabel(change))) return 'label_taken';
    if (change.kind === 'created') return null;
    if (!change.is_written && change.label === change.base_label) return null;
    if (changed.has(change.block_id)) return 'edited';
    changed.add(change.block_id);
    return null;
  });
}

/**
 * A change of agents' labels. `revised`: the block's label changes wherever it is attached.
 * `created`: its agent gets a label. `detached`: the agent loses a label.
 */
export type LabelChange = Pick<HeldFacts, 'agent_id' | 'block_id' | 'kind' | 'label' | 'base_label'>;

/**
 * Also refuses changes that would give an agent two blocks of a label: the later in order.
 * `labels` are all that these agents use.
 */
export function refuseClashes<Reason extends string>(
  changes: readonly LabelChange[],
  verdicts: readonly (Reason | null)[],
  labels: readonly LabelInUse[],
): readonly (Reason | 'label_taken' | null)[] {
  const refused: (Reason | 'label_taken' | null)[] = [...verdicts];
  for (;;) {
    const clash = findClash(changes, refused, labels);
    if (clash.length === 0) return refused;
    for (const index of clash) refused[index] = 'label_taken';
  }
}

/** Returns a change for each duplicate label, whose refusal removes the duplicate. */
function findClash(
  changes: readonly LabelChange[],
  verdicts: readonly (string | null)[],
  labels: readonly LabelInUse[],
): readonly number[] {
  const accepted = changes.flatMap((change, index) =>
    verdicts[index] === null ? [{ ...change, index }] : [],
  );
  const detached = new Set(
    accepted
      .filter(({ kind }) => kind === 'detached')
      .map(({ agent_id, block_id }) => `${agent_id}/${block_id}`),
  );
  const moved = new Map(
    accepted
      .filter(({ kind, label, base_label }) => kind === 'revised' && label !== base_label)
      .map((change) => [change.block_id, change]),
  );
  const created = accepted.filter(({ kind }) => kind === 'created');
  if (moved.size + created.length === 0) return [];
  const after = [
    ...labels
      .filter(({ agent_id, block_id }) => !detached.has(`${agent_id}/${block_id}`))
      .map(({ agent_id, block_id, label }) => {
        const move = moved.get(block_id);
        return { agent_id, label: move?.label ?? label, index: move?.index ?? null };
      }),
    ...created,
  ];
  const users = Map.groupBy(after, ({ agent_id, label }) => `${agent_id}/${label}`);
  const clashing = [...users.values()]
    .filter((same) => same.length > 1)
    .flatMap((same) => Math.max(...same.flatMap(({ index }) => index ?? [])));
  return [...new Set(clashing)];
}
