import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { ToolUseBlock } from '../model/content.ts';
import type { ToolDefinition, ToolKind } from '../model/tool.ts';
import type { ArgumentValidator } from './validate.ts';

/** A tool use of an answer, and who is to carry it out. */
export interface PlannedCall {
  /** Position among the tool uses of the answer, from 0. */
  readonly index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  /** `rejected` calls are not carried out; `rejection` is their result, and an error. */
  readonly kind: ToolKind | 'rejected';
  readonly args: JsonObject;
  readonly rejection: string | null;
  /** Null for a tool that the definition does not have. */
  readonly tool: ToolDefinition | null;
}

const NAME_CHARS_MAX = 128;
const NAMES_LISTED_MAX = 50;

/**
 * Decides for each tool use of an answer who carries it out. Calls keep their order. A call of an unknown tool, or
 * with arguments that its schema refuses, is rejected with a text that lets the model correct itself; so is a call of
 * a tool that needs an approval, which nobody can give in a batch.
 *
 * A tool use whose id has come before is left out, index and all: the provider takes one result per id, and a call
 * that can never be answered must not have effects.
 */
export function assignCalls(
  uses: readonly ToolUseBlock[],
  tools: readonly ToolDefinition[],
  validate: ArgumentValidator,
): readonly PlannedCall[] {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const seen = new Set<string>();
  const calls: PlannedCall[] = [];
  for (const [index, use] of uses.entries()) {
    if (seen.has(use.id)) continue;
    seen.add(use.id);
    calls.push(assignCall(index, use, byName, validate));
  }
  return calls;
}

function assignCall(
  index: number,
  use: ToolUseBlock,
  byName: ReadonlyMap<string, ToolDefinition>,
  validate: ArgumentValidator,
): PlannedCall {
  const tool = byName.get(use.name) ?? null;
  const call = {
    index,
    tool_use_id: use.id,
    tool_name: use.name,
    args: isJsonObject(use.input) ? use.input : {},
    tool,
  };
  if (tool === null)
    return { ...call, kind: 'rejected', rejection: unknownTool(use.name, [...byName.keys()]) };
  if (tool.requires_approval) return { ...call, kind: 'rejected', rejection: needsApproval(tool.name) };
  const checked = validate(tool, use.input);
  if (!checked.ok) return { ...call, kind: 'rejected', rejection: checked.message };
  return { ...call, kind: tool.kind, args: checked.args, rejection: null };
}

function needsApproval(name: string): string {
  return (
    `Tool '${name}' needs the approval of a person, which a batch does not offer. The call was not carried out; ` +
    'go on without it, and say that it is still to be done.'
  );
}

function unknownTool(name: string, available: readonly string[]): string {
  const shown = name.length <= NAME_CHARS_MAX ? name : `${name.slice(0, NAME_CHARS_MAX)}…`;
  if (available.length === 0) return `Tool not found: ${shown}. There are no tools to call.`;
  const more = available.length > NAMES_LISTED_MAX ? ', …' : '';
  return `Tool not found: ${shown}. Available tools: ${available.slice(0, NAMES_LISTED_MAX).join(', ')}${more}.`;
}
