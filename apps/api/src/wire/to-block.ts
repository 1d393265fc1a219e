import {
  BLOCK_CHAR_LIMIT_DEFAULT,
  CONFLICT_POLICY_DEFAULT,
  NightshiftError,
  toStorableText,
  toWireId,
} from '@nightshift/agent-core';
import { newId, type BlockRow, type NewBlock } from '@nightshift/db';
import type { BlockInput, BlockResponse } from '../schemas/block.ts';
import { USER_ID } from '../schemas/ids.ts';

/** Converts a stored block to an answer. */
export function toBlockResponse(block: BlockRow): BlockResponse {
  return {
    id: toWireId('block', block.id),
    label: block.label,
    value: block.value,
    limit: block.char_limit,
    description: block.description,
    metadata: block.metadata,
    read_only: block.read_only,
    conflict_policy: block.conflict_policy,
    is_template: block.is_template,
    hidden: block.hidden,
    tags: [...block.tags],
    revision: block.revision,
    project_id: null,
    template_name: null,
    template_id: null,
    base_template_id: null,
    deployment_id: null,
    entity_id: null,
    preserve_on_migration: null,
    created_by_id: USER_ID,
    last_updated_by_id: USER_ID,
  };
}

/** Default descriptions of blocks by label. A map, because an object would match `constructor`. */
const USUAL_DESCRIPTIONS: ReadonlyMap<string, string> = new Map([
  [
    'human',
    'What is known about the person this agent serves: facts, wishes and habits that matter in later conversations.',
  ],
  ['persona', 'Who this agent is: its role, its manner and the rules it keeps.'],
]);

/**
 * Returns the block to create. `path` is its place in errors.
 * Throws: `validation_failed` if the value is too long.
 */
export function toNewBlock(input: BlockInput, path = ''): NewBlock {
  const value = toStorableText(input.value ?? '');
  const char_limit = input.limit ?? BLOCK_CHAR_LIMIT_DEFAULT;
  assertFits(value, char_limit, `${path}/value`);
  return {
    id: newId(),
    label: input.label,
    value,
    description: input.description ?? USUAL_DESCRIPTIONS.get(input.label) ?? null,
    char_limit,
    read_only: input.read_only ?? false,
    conflict_policy: input.conflict_policy ?? CONFLICT_POLICY_DEFAULT,
    metadata: input.metadata ?? {},
    tags: input.tags ?? [],
    is_template: input.is_template ?? false,
    hidden: input.hidden ?? false,
  };
}

/**
 * Checks that a text fits its block. Unit: code points. `path` is the field to change: the text or `/limit`.
 * Throws: `validation_failed`.
 */
export function assertFits(value: string, charLimit: number, path: string): void {
  if (value.length <= charLimit) return;
  const length = codePointsOf(value);
  if (length <= charLimit) return;
  const message =
    path === '/limit'
      ? `must be at least ${length}, the number of characters of the block's value`
      : `has ${length} characters; the limit of this block is ${charLimit}`;
  throw new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
}

function codePointsOf(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Do not count the second half of a surrogate pair.
    if (code < 0xdc00 || code > 0xdfff) count++;
  }
  return count;
}
