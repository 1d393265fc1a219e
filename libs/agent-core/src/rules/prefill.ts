import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import type { ToolDefinition } from '../model/tool.ts';
import type { RuleHistory } from './history.ts';
import type { ToolRule } from './rule.ts';
import { allowedTools } from './solver.ts';

/** Checks a value against a tool's schema: the validator of tool arguments. */
export type ArgumentCheck = (tool: ToolDefinition, input: Json) => { readonly ok: boolean };

/**
 * Returns the arguments that rules fix for `toolName`; null for none. Only a callable tool has any.
 * Later rules override single arguments, in this order: `run_first` at the start of the run, then child rules of the
 * last tool.
 */
export function prefilledArgs(
  rules: readonly ToolRule[],
  history: RuleHistory,
  available: readonly string[],
  toolName: string,
): JsonObject | null {
  const args = new Map<string, Json>();
  const fix = (fixed: JsonObject | null): void => {
    for (const [name, value] of Object.entries(fixed ?? {})) args.set(name, value);
  };
  const last = history.calls.at(-1);
  if (last === undefined) {
    for (const rule of rules) {
      if (rule.type === 'run_first' && rule.tool_name === toolName) fix(rule.args);
    }
  }
  for (const rule of rules) {
    if (rule.type !== 'constrain_child_tools' || rule.tool_name !== last) continue;
    for (const node of rule.child_arg_nodes ?? []) {
      if (node.name === toolName) fix(node.args);
    }
  }
  if (args.size === 0 || !allowedTools(rules, history, available).includes(toolName)) return null;
  return Object.fromEntries(args);
}

/** Arguments of a call, or the error in the rules' own arguments. */
export type PrefilledCall =
  { readonly ok: true; readonly args: JsonObject } | { readonly ok: false; readonly message: string };

/**
 * Returns the model's arguments, overridden by the prefilled arguments. The merged arguments must still be validated.
 * An unknown or invalid prefilled argument is the author's mistake: the call is not carried out and the run ends. The
 * conversation keeps the model's own arguments.
 */
export function withPrefilled(
  tool: ToolDefinition,
  modelArgs: JsonObject,
  prefilled: JsonObject | null,
  check: ArgumentCheck,
): PrefilledCall {
  if (prefilled === null) return { ok: true, args: modelArgs };
  const problems = checkPrefilled(tool, prefilled, check);
  if (problems.length > 0) return { ok: false, message: problems.join('; ') };
  return { ok: true, args: { ...modelArgs, ...prefilled } };
}

/** Checks the arguments that a rule fixes for a tool, with a sentence per invalid argument. */
export function checkPrefilled(
  tool: ToolDefinition,
  args: JsonObject,
  check: ArgumentCheck,
): readonly string[] {
  const { properties, additionalProperties, $defs, definitions } = tool.input_schema;
  const known = isJsonObject(properties) ? properties : {};
  const takesOthers = additionalProperties === true || isJsonObject(additionalProperties);
  return Object.entries(args).flatMap(([name, value]) => {
    const schema = Object.hasOwn(known, name) ? known[name] : undefined;
    if (schema === undefined)
      return takesOthers ? [] : [`Unknown argument '${name}' for tool '${tool.name}'.`];
    const alone: ToolDefinition = {
      ...tool,
      input_schema: {
        type: 'object',
        properties: { [name]: schema },
        ...($defs === undefined ? {} : { $defs }),
        ...(definitions === undefined ? {} : { definitions }),
      },
    };
    if (check(alone, { [name]: value }).ok) return [];
    const shown = typeof value === 'string' ? value : JSON.stringify(value);
    return [`Invalid value for '${name}': ${shown} does not match expected schema type '${typeOf(schema)}'.`];
  });
}

/** Names the type that a schema accepts. */
function typeOf(schema: Json): string {
  if (!isJsonObject(schema)) return JSON.stringify(schema);
  const { type, anyOf, oneOf } = schema;
  if (schema['const'] !== undefined) return `const ${JSON.stringify(schema['const'])}`;
  if (Array.isArray(schema['enum'])) return `enum ${JSON.stringify(schema['enum'])}`;
  if (typeof type === 'string') return type;
  if (Array.isArray(type)) return type.join(' | ');
  const choices: Json | undefined = anyOf ?? oneOf;
  return Array.isArray(choices) ? choices.map(typeOf).join(' | ') : 'any';
}
