import { createBlock, detachBlock, draftValue, editBlock, renameBlock, type MemoryDraft } from './draft.ts';
import { applyHunks, openWork, parseHunks, type Hunk, type Work } from './hunks.ts';
import { findLineNumbers, refuse, type Refusal } from './refusal.ts';

/** An operation of a patch, in application order. */
type Operation =
  | {
      readonly kind: 'add';
      readonly label: string;
      readonly description: string | null;
      readonly value: string;
    }
  | { readonly kind: 'update'; readonly label: string; readonly hunks: readonly Hunk[] }
  | { readonly kind: 'delete'; readonly label: string }
  | { readonly kind: 'move'; readonly label: string; readonly new_label: string };

const SECTION = /^\*\*\* (Add|Update|Delete) Block:(.*)$/;
const MOVE = /^\*\*\* Move to:(.*)$/;
/** Frames that some models put around a patch; they have no meaning. */
const FRAME = /^\*\*\* (?:Begin Patch|End Patch|End of File)\s*$/;
const DESCRIPTION = /^Description:(.*)$/;

/**
 * `memory_apply_patch`: applies a patch to the draft; returns a report, or a refusal of all changes.
 * With `*** Add Block:`, `*** Update Block:` or `*** Delete Block:` headings the patch changes the named blocks; `***
 * Move to:` renames the block after its section. Without headings it holds hunks for the block `label`. The whole patch
 * is read before any change.
 */
export function applyPatch(draft: MemoryDraft, label: string, patch: string): string | Refusal {
  const lines = patch.split('\n').map((line) => line.replace(/\r$/, ''));
  if (lines.at(-1) === '') lines.pop();
  const copied = findLineNumbers(['patch'], [lines.map((line) => line.replace(/^[ +-]/, '')).join('\n')]);
  if (copied !== null) return copied;

  const operations = lines.some((line) => SECTION.test(line))
    ? parseSections(lines)
    : parseSingle(label, lines);
  if ('kind' in operations) return operations;
  const work = openWork();
  for (const operation of operations) {
    const refusal = apply(draft, operation, work);
    if (refusal !== null) return refusal;
  }
  const [only] = operations;
  return operations.length === 1 && only?.kind === 'update'
    ? draftValue(draft, only.label)
    : `Patch applied: ${operations.map(describe).join('; ')}.`;
}

function parseSingle(label: string, lines: readonly string[]): readonly Operation[] | Refusal {
  if (lines.some((line) => MOVE.test(line))) {
    return refuse("'*** Move to:' needs a '*** Update Block:' or '*** Add Block:' heading before it.");
  }
  const hunks = parseHunks(withoutFrame(lines));
  return 'kind' in hunks ? hunks : [{ kind: 'update', label, hunks }];
}

/** Removes the headings of other patch formats before the first hunk, and their end. */
function withoutFrame(lines: readonly string[]): readonly string[] {
  const first = lines.findIndex((line) => !line.startsWith('*** ') && line !== '');
  return lines.slice(Math.max(first, 0)).filter((line) => !FRAME.test(line));
}

interface Section {
  readonly kind: string;
  readonly label: string;
  readonly body: string[];
  move: string | null;
}

function parseSections(lines: readonly string[]): readonly Operation[] | Refusal {
  const sections: Section[] = [];
  for (const line of lines) {
    const heading = SECTION.exec(line);
    const move = MOVE.exec(line);
    const section = sections.at(-1);
    if (heading !== null) {
      const [, kind = '', label = ''] = heading;
      if (label.trim() === '') return refuse(`'${line.trim()}' names no block.`);
      sections.push({ kind, label: label.trim(), body: [], move: null });
    } else if (move !== null) {
      if (section === undefined || section.kind === 'Delete' || section.move !== null) {
        return refuse(`'${line.trim()}' needs an Add or Update heading of its own before it.`);
      }
      const [, newLabel = ''] = move;
      section.move = newLabel.trim();
      if (section.move === '') return refuse("'*** Move to:' names no block.");
    } else if (FRAME.test(line)) continue;
    else if (section !== undefined && !line.startsWith('*** ')) section.body.push(line);
    else if (line.trim() !== '') {
      return refuse(`A line of the patch belongs to no block, or is no heading that is known: ${line}`);
    }
  }
  const operations: Operation[] = [];
  for (const section of sections) {
    const operation = operationOf(section);
    if ('message' in operation) return operation;
    const isMoveAlone = operation.kind === 'update' && operation.hunks.length === 0 && section.move !== null;
    if (!isMoveAlone) operations.push(operation);
    if (section.move !== null) {
      operations.push({ kind: 'move', label: section.label, new_label: section.move });
    }
  }
  return operations;
}

function operationOf({ kind, label, body }: Section): Operation | Refusal {
  if (kind === 'Update') {
    const hunks = parseHunks(body);
    return 'kind' in hunks ? hunks : { kind: 'update', label, hunks };
  }
  if (kind === 'Delete') {
    const line = body.find((text) => text.trim() !== '');
    return line === undefined
      ? { kind: 'delete', label }
      : refuse(`'*** Delete Block: ${label}' takes no lines, but is followed by: ${line}`);
  }
  const [firstLine = ''] = body;
  const [heading, text = ''] = DESCRIPTION.exec(firstLine) ?? [];
  const description = heading === undefined ? null : text.trim();
  const rest = heading === undefined ? body : body.slice(1);
  const odd = rest.find((line) => !line.startsWith('+') && line.trim() !== '');
  if (odd !== undefined) {
    return refuse(`Each line of '*** Add Block: ${label}' must begin with '+', this line does not: ${odd}`);
  }
  const value = rest.filter((line) => line.startsWith('+')).map((line) => line.slice(1));
  return { kind: 'add', label, description, value: value.join('\n') };
}

function apply(draft: MemoryDraft, operation: Operation, work: Work): Refusal | null {
  switch (operation.kind) {
    case 'add':
      return createBlock(draft, operation.label, operation.description, operation.value);
    case 'update':
      return editBlock(draft, operation.label, (block) => applyHunks(block, operation.hunks, work));
    case 'delete':
      return detachBlock(draft, operation.label);
    case 'move':
      return renameBlock(draft, operation.label, operation.new_label);
  }
}

function describe(operation: Operation): string {
  switch (operation.kind) {
    case 'add':
      return `added block '${operation.label}'`;
    case 'update':
      return `updated block '${operation.label}'`;
    case 'delete':
      return `deleted block '${operation.label}'`;
    case 'move':
      return `renamed block '${operation.label}' to '${operation.new_label}'`;
  }
}
