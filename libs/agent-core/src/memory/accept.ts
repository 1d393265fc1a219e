/** Changes of one agent to one block, held for review. */
export interface HeldFacts {
  readonly agent_id: string;
  readonly block_id: string;
  readonly kind: 'revised' | 'created' | 'detached' | 'dropped';
  /** Whether the block is gone, and whether it still is what the changes were worked out from. */
  readonly is_deleted: boolean;
  readonly is_unchanged: boolean;
  /** Whether it is closed to agents by now, and whether the new text is longer than it may be by now. */
  readonly is_read_only: boolean;
  readonly is_over_limit: boolean;
  /** Whether the text or the description is another now. */
  readonly is_written: boolean;
  /** The label that it is to have, and the one that it had; null for a new block. */
  readonly label: string;
  readonly base_label: string | null;
}

/** A label that an agent uses. */
export interface LabelInUse {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
}

/** Why held changes cannot be accepted as they are. */
export type StaleReason = 'edited' | 'deleted' | 'read_only' | 'over_limit' | 'label_taken';

/**
 * Says of each held change, in the order given, whether it may come into force now with the others: null, or why not. A
 * block takes the changes of one agent, the first that comes into force and changes anything; those of another were worked out
 * from a text that is gone then. No agent may end up with two blocks of one label; `labels` are all that the agents concerned use.
 */
export function planAccept(
  held: readonly HeldFacts[],
  labels: readonly LabelInUse[],
): readonly (StaleReason | null)[] {
  const clashing = new Set<string>();
  for (;;) {
    const verdicts = refuseClashes(held, judgeAlone(held, clashing), labels);
    const fresh = held.filter(
      (change, index) => verdicts[index] === 'label_taken' && !clashing.has(wishOf(change)),
    );
    if (fresh.length === 0) return verdicts;
    // What is refused for its label takes its block from nobody: the others are judged again without it, and without those
    // that would give the block the same label.
    for (const change of fresh) clashing.add(wishOf(change));
  }
}

/** The label that a change gives to a block. */
function wishOf({ block_id, label }: HeldFacts): string {
  return `${block_id}/${label}`;
}

/** The verdicts without a look at labels, but for those that are known to clash. */
function judgeAlone(
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
    if (clashing.has(wishOf(change))) return 'label_taken';
    if (change.kind === 'created') return null;
    if (!change.is_written && change.label === change.base_label) return null;
    if (changed.has(change.block_id)) return 'edited';
    changed.add(change.block_id);
    return null;
  });
}

/**
 * A change of the labels that agents have: a `revised` block goes from one to another wherever it is attached, a `created`
 * one comes to its agent, a `detached` one leaves it.
 */
export type LabelChange = Pick<HeldFacts, 'agent_id' | 'block_id' | 'kind' | 'label' | 'base_label'>;

/**
 * The verdicts on changes, with those refused, too, that would give an agent two blocks of one label: the later ones in the
 * order given. `labels` are all that the agents concerned use.
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

/** Changes, one for each label that an agent would have twice, without which it would not. */
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
