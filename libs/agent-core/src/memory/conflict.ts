import type { WriteResolution } from '../model/block-change.ts';
import type { BlockView } from '../model/block.ts';
import { checkLimit } from './edits.ts';
import { mergeThreeWay, type Diff3 } from './merge.ts';
import { refuse, type Refusal } from './refusal.ts';
import { codePointLength } from './text.ts';

/** Policies for a write of a block that changed after the request was made. */
export const CONFLICT_POLICIES = ['reject', 'last_write', 'merge'] as const;
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number];
/** The default policy of a block: it loses no line. */
export const CONFLICT_POLICY_DEFAULT: ConflictPolicy = 'merge';

/** Writer of a revision: a person or program at the API, or a call of a run. */
export type BlockWriter = 'person' | 'run';

/** The value to write and its resolution; null if unchanged; or the refusal. */
export type ResolvedWrite =
  | { readonly kind: 'write'; readonly value: string; readonly resolution: WriteResolution }
  | { readonly kind: 'none' }
  | { readonly kind: 'conflict'; readonly refusal: Refusal };

/** The texts that decide about a write. */
export interface WriteFacts {
  /** The base of `value`: the text that the request showed, with the agent's own edits since. */
  readonly base: string;
  /** The present block, locked. */
  readonly current: BlockView;
  readonly value: string;
  /** Last writer of the block; told to the model on a conflict. */
  readonly changed_by: BlockWriter;
}

/**
 * Decides about a write. Without another writer's change it is written under every policy.
 * Changes count by text, so a block that was changed back is unchanged. `reject` refuses with advice. `merge` merges by
 * lines, and refuses overlaps. `last_write` overwrites, which the effect records.
 */
export function resolveWrite(policy: ConflictPolicy, facts: WriteFacts, diff3: Diff3): ResolvedWrite {
  const { base, current, value } = facts;
  if (value === current.value) return { kind: 'none' };
  if (base === current.value) return { kind: 'write', value, resolution: 'clean' };
  switch (policy) {
    case 'last_write':
      return { kind: 'write', value, resolution: 'overwrote' };
    case 'reject':
      return { kind: 'conflict', refusal: conflict(facts, '') };
    case 'merge': {
      const merged = mergeThreeWay(base, current.value, value, diff3);
      if (!merged.ok) return { kind: 'conflict', refusal: conflict(facts, overlapOf(merged.lines)) };
      if (merged.value === current.value) return { kind: 'none' };
      const overLimit = checkLimit(current, codePointLength(merged.value));
      return overLimit === null
        ? { kind: 'write', value: merged.value, resolution: 'merged' }
        : { kind: 'conflict', refusal: overLimit };
    }
  }
}

function conflict({ current, changed_by }: WriteFacts, detail: string): Refusal {
  const writer = changed_by === 'person' ? 'a person' : 'another run';
  return refuse(
    `Memory block '${current.label}' was changed by ${writer} after you last saw it${detail}. Nothing was written. ` +
      `The next message shows the change. Call again, based on the present text:\n${current.value}`,
  );
}

const LINES_SHOWN_MAX = 3;
const LINE_CHARS_MAX = 80;

function overlapOf(lines: readonly string[]): string {
  if (lines.length === 0) return ', in the same place as you';
  const shown = lines
    .slice(0, LINES_SHOWN_MAX)
    .map((line) => `"${line.length <= LINE_CHARS_MAX ? line : `${line.slice(0, LINE_CHARS_MAX)}…`}"`);
  const more = lines.length > LINES_SHOWN_MAX ? ', …' : '';
  return `, in the same lines as you (${shown.join(', ')}${more})`;
}
