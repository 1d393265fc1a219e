import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { ToolUseBlock } from '../model/content.ts';
import type { PlannedCall } from '../model/planned-call.ts';
import { CARRIED_OUT, type ToolDefinition } from '../model/tool.ts';
import { checkCalls } from '../rules/check.ts';
import type { RuleHistory } from '../rules/history.ts';
import { prefilledArgs, withPrefilled } from '../rules/prefill.ts';
import type { ToolRule } from '../rules/rule.ts';
import { requiresApproval, uncalledRequired } from '../rules/solver.ts';
import { inexactIn } from '../tools/inexact.ts';
import type { ArgumentValidator } from '../tools/validate.ts';
import type { ToolPolicy } from './tool-policy.ts';

const NAME_CHARS_MAX = 128;
const NAMES_LISTED_MAX = 50;
const WITHHELD = 'The call was not made: the run ends because of another call of this answer.';

/**
 * Plans the runner of each tool use of an answer, in order.
 * Rejected, with a text for the model: unknown tools, calls that the tool rules forbid after `history`, arguments that
 * fail the schema, and numbers that would change on the way. Client tools and tools that need approval await the
 * caller. If a tool rule's own arguments do not fit, no call is carried out.
 * `finish` is rejected until the required tools are called, before or beside it; a result accepted earlier would be
 * forgotten.
 * A tool use with a repeated id is left out with its index. The provider takes one result per id, and a call without a
 * reply must have no effect.
 */
export function planCalls(
  uses: readonly ToolUseBlock[],
  toolPolicy: ToolPolicy,
  history: RuleHistory,
  validate: ArgumentValidator,
): readonly PlannedCall[] {
  const by = { toolPolicy, history, validate };
  const judged = distinctOf(uses).map(({ index, use }) => planCall(index, use, by));
  const calls =
    toolPolicy.rules.length === 0
      ? judged
      : withoutEarlyFinish(withoutForbidden(judged, toolPolicy, history), toolPolicy, history);
  if (calls.every((call) => call.prefill_error === null)) return calls;
  return calls.map((call) => ({
    ...call,
    kind: 'rejected',
    rejection: call.rejection ?? WITHHELD,
    awaits: null,
  }));
}

/** Rejects the calls that the rules forbid, before any check of arguments. A limit counts only calls carried out. */
function withoutForbidden(
  calls: readonly PlannedCall[],
  { rules, available }: ToolPolicy,
  history: RuleHistory,
): readonly PlannedCall[] {
  const flawed = new Set([...calls.keys()].filter((place) => calls[place]?.kind === 'rejected'));
  const names = calls.map(({ tool_name }) => tool_name);
  const violations = checkCalls(rules, history, available, names, flawed);
  return calls.map((call, place): PlannedCall => {
    const rejection = violations[place] ?? null;
    return rejection === null
      ? call
      : { ...call, kind: 'rejected', rejection, awaits: null, prefill_error: null };
  });
}

function withoutEarlyFinish(
  calls: readonly PlannedCall[],
  { rules, available }: ToolPolicy,
  history: RuleHistory,
): readonly PlannedCall[] {
  if (!calls.some(({ kind }) => kind === 'finish')) return calls;
  const made = calls.filter(({ kind }) => kind !== 'rejected').map(({ tool_name }) => tool_name);
  const missing = uncalledRequired(rules, { ...history, calls: [...history.calls, ...made] }, available);
  if (missing.length === 0) return calls;
  return calls.map((call) =>
    call.kind === 'finish'
      ? {
          ...call,
          kind: 'rejected',
          rejection: `The result is not taken yet: call ${missing.join(', ')} first, then ${call.tool_name} again.`,
        }
      : call,
  );
}

/** Returns the tool uses with their positions, without repeated ids. */
function distinctOf(
  uses: readonly ToolUseBlock[],
): readonly { readonly index: number; readonly use: ToolUseBlock }[] {
  const placed = uses.map((use, index) => ({ index, use }));
  if (placed.length === 1) return placed;
  const seen = new Set<string>();
  return placed.filter(({ use: { id } }) => !seen.has(id) && seen.add(id));
}

function planCall(
  index: number,
  use: ToolUseBlock,
  by: {
    readonly toolPolicy: ToolPolicy;
    readonly history: RuleHistory;
    readonly validate: ArgumentValidator;
  },
): PlannedCall {
  const { tools, rules, available } = by.toolPolicy;
  const tool = tools.find(({ name }) => name === use.name) ?? null;
  if (tool === null) return rejected(index, use, null, unknownTool(use.name, available));
  const fixed = rules.length === 0 ? null : prefilledArgs(rules, by.history, available, tool.name);
  const given = tool.kind === 'memory' ? withoutNulls(argsOf(use)) : argsOf(use);
  const filled = withPrefilled(tool, given, fixed, by.validate);
  if (!filled.ok) return rejected(index, use, tool, filled.message, filled.message);
  // The validator refuses input that is no object, so no rule may fill it.
  const checked = by.validate(tool, isJsonObject(use.input) ? filled.args : use.input);
  if (!checked.ok) return rejected(index, use, tool, checked.message);
  // Memory tools take texts; their numbers are not passed on.
  const inexact = tool.kind === 'memory' ? null : inexactIn(use.input);
  if (inexact !== null) return rejected(index, use, tool, inexactText(tool, inexact));
  return {
    index,
    tool_use_id: use.id,
    tool_name: use.name,
    kind: tool.kind,
    args: checked.args,
    rejection: null,
    awaits: awaitedOf(tool, rules),
    prefill_error: null,
    tool,
  };
}

function rejected(
  index: number,
  use: ToolUseBlock,
  tool: ToolDefinition | null,
  rejection: string,
  prefill_error: string | null = null,
): PlannedCall {
  return {
    index,
    tool_use_id: use.id,
    tool_name: use.name,
    kind: 'rejected',
    args: argsOf(use),
    rejection,
    awaits: null,
    prefill_error,
    tool,
  };
}

function inexactText({ name, kind }: ToolDefinition, inexact: string): string {
  return kind === 'finish'
    ? `The result is not taken: ${inexact}.`
    : `The call of '${name}' was not made: ${inexact}.`;
}

function argsOf({ input }: ToolUseBlock): JsonObject {
  return isJsonObject(input) ? input : {};
}

/** Removes null arguments, which count as omitted for memory tools. */
function withoutNulls(args: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
}

/** Returns the input awaited of the caller. A client tool needs no approval: its caller can refuse. */
function awaitedOf(tool: ToolDefinition, rules: readonly ToolRule[]): PlannedCall['awaits'] {
  if (CARRIED_OUT[tool.kind] === 'caller') return 'answer';
  return tool.requires_approval || requiresApproval(rules, tool.name) ? 'approval' : null;
}

function unknownTool(name: string, available: readonly string[]): string {
  const shown = name.length <= NAME_CHARS_MAX ? name : `${name.slice(0, NAME_CHARS_MAX)}…`;
  if (available.length === 0) return `Tool not found: ${shown}. There are no tools to call.`;
  const more = available.length > NAMES_LISTED_MAX ? ', …' : '';
  return `Tool not found: ${shown}. Available tools: ${available.slice(0, NAMES_LISTED_MAX).join(', ')}${more}.`;
}
