import type { Merged } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import type { HeldRow, NewText } from './held-row.ts';

/** What happens to a held change whose block has been changed since. */
export type OnConflict =
  /** It stays held and is reported. */
  | { readonly kind: 'fail' }
  /** It is merged with the block's present text by lines; it stays held if both changed the same lines. */
  | { readonly kind: 'rebase'; readonly merge: (base: string, current: string, mine: string) => Merged }
  /** It overwrites the block. */
  | { readonly kind: 'force' };

/** A change that may take effect after all, with its text. */
export interface Resolved {
  readonly change: HeldRow;
  readonly text: NewText;
}

interface Texts {
  readonly draft_id: string;
  readonly base: string;
  readonly current: string;
  readonly mine: string;
  readonly base_description: string | null;
  readonly current_description: string | null;
  readonly my_description: string | null;
  readonly current_label: string;
  readonly char_limit: number;
}

/** Resolves stale changes, one per block. The caller holds their blocks. Index: `held_change_by_draft`, primary keys. */
export async function resolveStale(
  trx: Tx,
  batchId: string,
  stale: readonly HeldRow[],
  how: OnConflict,
): Promise<readonly Resolved[]> {
  if (how.kind === 'fail') return [];
  if (how.kind === 'force')
    return stale.map((change) => ({
      change: { ...change, is_unchanged: true },
      text: { resolution: 'overwrote', merged: null },
    }));
  const { rows } = await sql<Texts>`
    select h.draft_id, base.value as base, head.value as current, now.value as mine, base.description as base_description,
           head.description as current_description, now.description as my_description, b.label as current_label,
           head.char_limit
      from held_change h
      join block d on d.id = h.draft_id
      join block_revision now on now.block_id = d.id and now.revision = d.head_revision
      join block b on b.id = h.block_id
      join block_revision head on head.block_id = b.id and head.revision = b.head_revision
      join block_revision base on base.block_id = b.id and base.revision = h.base_revision
     where h.batch_id = ${batchId} and h.draft_id = any(${uuidArray(stale.map(({ draft_id }) => draft_id))}::uuid[])
       and h.kind = 'revised'
  `.execute(trx);
  const texts = new Map(rows.map((row) => [row.draft_id, row]));
  return stale.flatMap((change) => {
    const text = texts.get(change.draft_id);
    return text === undefined ? [] : rebase(change, text, how.merge);
  });
}

function rebase(
  change: HeldRow,
  texts: Texts,
  merge: Extract<OnConflict, { kind: 'rebase' }>['merge'],
): readonly Resolved[] {
  const { label, base_label } = change;
  // Both renamed the block.
  if (label !== base_label && texts.current_label !== base_label && texts.current_label !== label) return [];
  const description = mergeWhole(texts.base_description, texts.current_description, texts.my_description);
  const merged = merge(texts.base, texts.current, texts.mine);
  if (description === undefined || !merged.ok) return [];
  const { value } = merged;
  return [
    {
      change: {
        ...change,
        is_unchanged: true,
        is_written: value !== texts.current || description !== texts.current_description,
        is_over_limit: value !== texts.current && [...value].length > texts.char_limit,
      },
      text: { resolution: 'merged', merged: { value, description } },
    },
  ];
}

/** Merges a value as a whole; undefined if both sides changed it. */
function mergeWhole(
  base: string | null,
  current: string | null,
  mine: string | null,
): string | null | undefined {
  if (mine === base) return current;
  return current === base || current === mine ? mine : undefined;
}
