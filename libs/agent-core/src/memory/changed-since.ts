import { toStorableText } from '../base/json.ts';
import type { BlockView } from '../model/block.ts';
import type { ToolOutcome } from '../model/tool.ts';

/** The memory tools that replace everything a block holds by a text worked out from what the request showed. */
const WHOLE_BLOCK_REWRITES: ReadonlySet<string> = new Set(['memory_rethink', 'rethink_memory']);

/** UTF-16 units of the present value that the model is shown. */
const VALUE_CHARS_MAX = 4_000;

/** Whether a built-in memory tool replaces the whole value: where it does, another's edit would be lost without a trace. */
export function rewritesWholeBlock(toolName: string): boolean {
  return WHOLE_BLOCK_REWRITES.has(toolName);
}

/**
 * What the model reads of a rewrite that is not carried out, because the block is no longer as its request showed it.
 * `block` is the block as it stands.
 */
export function changedSinceShown(
  toolName: string,
  block: Pick<BlockView, 'label' | 'value'>,
  changedBy: 'person' | 'run',
): ToolOutcome {
  const who = changedBy === 'person' ? 'a person' : 'another run';
  const isLong = block.value.length > VALUE_CHARS_MAX;
  const value = isLong ? `${block.value.slice(0, VALUE_CHARS_MAX).toWellFormed()}…` : block.value;
  const result =
    `Error executing function ${toolName}: ValueError: Memory block '${block.label}' was changed by ${who} after you ` +
    'last saw it, so nothing was written. Decide anew, from the block as it is now, and call again if it still needs ' +
    `a change. It now holds${isLong ? ', in part' : ''}:\n${value}`;
  return { ok: false, result: toStorableText(result) };
}
