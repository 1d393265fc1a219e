import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { ToolUseBlock } from '../model/content.ts';
import type { PlannedCall } from '../model/planned-call.ts';
import type { ToolDefinition } from '../model/tool.ts';
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
 * Decides for each tool use of an answer who carries it out. Calls keep their order. A call of an unknown tool, one that
 * the tool rules forbid after `history`, and one with arguments that its schema refuses are rejected with a text that lets
 * the model correct itself; so is one whose numbers would reach who carries it out as others. Calls of client tools, and of tools that need an approval, await the caller. Where a tool rule
 * itself fixes arguments that do not fit, no call of the answer is carried out.
 *
 * A call of `finish` is rejected for as long as other tools are required and called neither before nor beside it: a run goes
 * on until they are, and a result that was taken on the way would be forgotten.
 *
 * A tool use whose id has come before is left out, index and all: the provider takes one result per id, and a call
 * that can never be answered must not have effects.
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

/**
 * Those that the rules forbid are rejected for that, whatever is wrong with their arguments. A limit counts only what is
 * carried out.
 */
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

/** The uses with their places, without those whose id has come before. */
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
  // Input that is no object is for the validator to refuse, whatever a rule would add to it.
  const checked = by.validate(tool, isJsonObject(use.input) ? filled.args : use.input);
  if (!checked.ok) return rejected(index, use, tool, checked.message);
  // Memory tools take texts: what a number of theirs loses goes nowhere.
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

/** An argument of a memory tool that is null counts as left out. */
function withoutNulls(args: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
}

/** A client tool is the caller's own to refuse, so it needs no approval beside. */
function awaitedOf(tool: ToolDefinition, rules: readonly ToolRule[]): PlannedCall['awaits'] {
  if (tool.kind === 'client') return 'answer';
  return tool.requires_approval || requiresApproval(rules, tool.name) ? 'approval' : null;
}

function unknownTool(name: string, available: readonly string[]): string {
  const shown = name.length <= NAME_CHARS_MAX ? name : `${name.slice(0, NAME_CHARS_MAX)}…`;
  if (available.length === 0) return `Tool not found: ${shown}. There are no tools to call.`;
  const more = available.length > NAMES_LISTED_MAX ? ', …' : '';
  return `Tool not found: ${shown}. Available tools: ${available.slice(0, NAMES_LISTED_MAX).join(', ')}${more}.`;
}
