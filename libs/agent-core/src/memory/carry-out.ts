import type { JsonObject } from '../base/json.ts';
import type { BlockView } from '../model/block.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { applyMemoryTool } from './apply.ts';
import { restoreClosingTags, tagNames } from './closing-tags.ts';
import { applyCommand } from './command.ts';
import { CONFLICT_POLICY_DEFAULT, resolveWrite, type BlockWriter, type ConflictPolicy } from './conflict.ts';
import {
  createBlock,
  draftEffects,
  draftValue,
  editBlock,
  openDraft,
  type DraftOptions,
  type MemoryDraft,
} from './draft.ts';
import type { MemoryEffect } from './effects.ts';
import type { Diff3 } from './merge.ts';
import { applyPatch } from './patch.ts';
import {
  findLineNumbers,
  movedLabel,
  readTexts,
  refused,
  type KnownLabels,
  type Refusal,
} from './refusal.ts';

/** A block of an agent while an answer is applied. */
export interface HeldBlock {
  /** The locked block in the store, with the effects of this step so far. */
  readonly current: BlockView;
  /** The block as its request showed it, with the agent's own edits since; null if not shown. */
  readonly seen: { readonly revision: number; readonly value: string } | null;
  readonly policy: ConflictPolicy;
  /** Writer of the present revision. */
  readonly changed_by: BlockWriter;
}

export interface MemoryCallOptions extends DraftOptions {
  /** Whether rewriting a missing block creates it. */
  readonly may_create: boolean;
  readonly diff3: Diff3;
}

/** Outcome of a memory call. */
export interface MemoryCallOutcome {
  readonly outcome: ToolOutcome;
  /** Committed together and in order; none where the call failed or changed nothing. */
  readonly effects: readonly MemoryEffect[];
  /** The blocks for the next call of the step. */
  readonly held: readonly HeldBlock[];
  /** The labels for the next call of the step. */
  readonly known: KnownLabels;
}

/**
 * Carries out a call of any memory tool. Never throws: an error is an outcome without effects.
 * The result is not yet cut to the tool's `return_char_limit`.
 * The edit applies to the text that the model saw, so that line numbers and quotations match. The block's policy then
 * brings it onto the present text; under `last_write` the edit applies to the present text itself, so that it reverts
 * nothing else. A label means the block that the model saw under it; if another block has it now, the call is refused.
 * Closing tags may be named as shown or as stored. Calls of a step come in order, each with the blocks left by the
 * previous call.
 */
export function carryOutMemoryCall(
  toolName: string,
  args: JsonObject,
  held: readonly HeldBlock[],
  options: MemoryCallOptions,
): MemoryCallOutcome {
  const edited = edit(toolName, asStored(args, held, options.known), held.map(viewOf), options);
  if (!edited.outcome.ok) return { ...edited, held, known: options.known };

  let { result } = edited.outcome;
  const effects: MemoryEffect[] = [];
  const seen = new Map<string, string>();
  for (const effect of edited.effects) {
    const block = held.find(({ current }) => current.block_id === effect.block_id);
    if (effect.kind !== 'write' || block === undefined) {
      effects.push(effect);
      continue;
    }
    const { current, changed_by } = block;
    const facts = { base: baseOf(block, toolName), current, value: effect.value, changed_by };
    const resolved = resolveWrite(block.policy, facts, options.diff3);
    if (resolved.kind === 'conflict') {
      return { outcome: refused(toolName, resolved.refusal), effects: [], held, known: options.known };
    }
    // An edit of a part that was not shown tells the agent nothing of the rest.
    if (block.seen !== null || WHOLE_TEXT_TOOLS.has(toolName)) seen.set(effect.block_id, effect.value);
    if (resolved.kind === 'none') {
      if (effect.value !== current.value) result = changedText(effect.label, NOTHING_LEFT, current.value);
      continue;
    }
    effects.push({ ...effect, value: resolved.value, resolution: resolved.resolution });
    if (resolved.resolution === 'merged') result = changedText(effect.label, MERGED, resolved.value);
  }
  const { known } = edited;
  return { outcome: { ok: true, result }, effects, held: heldAfter(held, effects, seen), known };
}

/** Tools that replace the whole text of a block; the call does not name the old text. */
const WHOLE_TEXT_TOOLS: ReadonlySet<string> = new Set([
  'rethink_memory',
  'memory_rethink',
  'rethink_user_memory',
]);
/** The block that Letta's voice agents rewrite. */
const USER_LABEL = 'human';

/** Returns the block that an edit applies to. */
function viewOf({ current, seen, policy }: HeldBlock): BlockView {
  return seen === null || policy === 'last_write' ? current : { ...current, ...seen };
}

/** Returns the text whose later change by others is a conflict. A whole text has an empty base if none was shown. */
function baseOf({ current, seen, policy }: HeldBlock, toolName: string): string {
  if (WHOLE_TEXT_TOOLS.has(toolName)) return seen?.value ?? '';
  return seen === null || policy === 'last_write' ? current.value : seen.value;
}

/** Returns the arguments with closing tags as stored, where the prompt shows them otherwise. */
function asStored(args: JsonObject, held: readonly HeldBlock[], known: KnownLabels): JsonObject {
  const texts = held.flatMap(({ current, seen }) => [
    current.value,
    current.description ?? '',
    seen?.value ?? '',
  ]);
  return restoreClosingTags(args, texts, tagNames([...known.keys()]));
}

type Edited = Pick<MemoryCallOutcome, 'outcome' | 'effects' | 'known'>;

/** Applies the call to the blocks that the agent saw, whatever their present state. */
function edit(
  toolName: string,
  args: JsonObject,
  blocks: readonly BlockView[],
  options: MemoryCallOptions,
): Edited {
  const { may_create, known } = options;
  const draft = openDraft(blocks, options);
  switch (toolName) {
    case 'memory':
      return drafted(toolName, draft, applyCommand(draft, args));
    case 'memory_str_replace':
      return drafted(toolName, draft, applyCommand(draft, { ...args, command: 'str_replace' }));
    case 'memory_str_insert':
      return drafted(toolName, draft, applyCommand(draft, { ...args, command: 'insert' }));
    case 'memory_apply_patch': {
      const texts = readTexts({ label: '', ...args }, ['label', 'patch']);
      if ('kind' in texts) return drafted(toolName, draft, texts);
      const [label = '', patch = ''] = texts;
      return drafted(toolName, draft, applyPatch(draft, label, patch));
    }
    case 'send_message': {
      const texts = readTexts(args, ['message']);
      return drafted(toolName, draft, 'kind' in texts ? texts : 'Sent message successfully.');
    }
    case 'memory_finish_edits':
    case 'finish_rethinking_memory':
      return drafted(toolName, draft, 'Your memory edits are finished.');
    case 'rethink_user_memory':
      return rewrite(toolName, draft, { ...args, label: USER_LABEL }, options);
    default:
  }
  const named = args[toolName === 'rethink_memory' ? 'target_block_label' : 'label'];
  if (typeof named === 'string') {
    const moved = movedLabel(named, blocks, known);
    if (moved !== null) return drafted(toolName, draft, moved);
    const isRewrite = toolName === 'rethink_memory' || toolName === 'memory_rethink';
    if (isRewrite && may_create && !blocks.some((block) => block.label === named))
      return rewrite(toolName, draft, { ...args, label: named }, options);
  }
  const { outcome, write } = applyMemoryTool(toolName, args, blocks, options.writable_labels);
  if (write === null) return { outcome, effects: [], known };
  const [label = ''] = blocks
    .filter((block) => block.block_id === write.block_id)
    .map((block) => block.label);
  return { outcome, effects: [{ kind: 'write', label, ...write, resolution: 'clean' }], known };
}

function drafted(toolName: string, draft: MemoryDraft, done: string | Refusal): Edited {
  return typeof done === 'string'
    ? { outcome: { ok: true, result: done }, effects: draftEffects(draft), known: draft.known }
    : { outcome: refused(toolName, done), effects: [], known: draft.known };
}

/** Replaces the whole text of the block `args.label`, and creates it where allowed. */
function rewrite(
  toolName: string,
  draft: MemoryDraft,
  args: JsonObject,
  { may_create, known }: MemoryCallOptions,
): Edited {
  const texts = readTexts(args, ['label', 'new_memory']);
  if ('kind' in texts) return drafted(toolName, draft, texts);
  const [label = '', text = ''] = texts;
  const exists = draft.blocks.some((block) => block.label === label);
  const refusal =
    findLineNumbers(['new_memory'], [text]) ??
    movedLabel(label, draft.blocks, known) ??
    (may_create && !exists
      ? createBlock(draft, label, null, text)
      : editBlock(draft, label, () => ({ value: text })));
  return drafted(toolName, draft, refusal ?? draftValue(draft, label));
}

const MERGED = 'your change was merged with theirs';
const NOTHING_LEFT = 'nothing of your change was left to write';

function changedText(label: string, outcome: string, value: string): string {
  return `Memory block '${label}' was changed by someone else after you last saw it; ${outcome}. It now reads:\n${value}`;
}

/** Returns the blocks after the effects. `seen`: the agent's view of the values that it wrote. */
function heldAfter(
  held: readonly HeldBlock[],
  effects: readonly MemoryEffect[],
  seen: ReadonlyMap<string, string>,
): readonly HeldBlock[] {
  return effects.reduce<readonly HeldBlock[]>(withEffect, held).map((block) => {
    const value = seen.get(block.current.block_id);
    return value === undefined ? block : { ...block, seen: { revision: block.current.revision, value } };
  });
}

function withEffect(held: readonly HeldBlock[], effect: MemoryEffect): readonly HeldBlock[] {
  const change = (to: (block: HeldBlock) => HeldBlock): readonly HeldBlock[] =>
    held.map((block) => (block.current.block_id === effect.block_id ? to(block) : block));
  switch (effect.kind) {
    case 'write':
      return change((block) => {
        const current = { ...block.current, revision: block.current.revision + 1, value: effect.value };
        return { ...block, current, changed_by: 'run' };
      });
    case 'create': {
      const { block_id, label, description, value, char_limit } = effect;
      const current = { block_id, revision: 1, label, description, value, char_limit, read_only: false };
      return [
        ...held,
        { current, seen: { revision: 1, value }, policy: CONFLICT_POLICY_DEFAULT, changed_by: 'run' },
      ];
    }
    case 'detach':
      return held.filter(({ current }) => current.block_id !== effect.block_id);
    case 'rename':
      return change((block) => ({ ...block, current: { ...block.current, label: effect.new_label } }));
    case 'describe':
      return change(({ current, seen, policy }) => {
        const revision = current.revision + 1;
        return {
          current: { ...current, revision, description: effect.description },
          seen: seen === null ? null : { ...seen, revision },
          policy,
          changed_by: 'run',
        };
      });
  }
}
