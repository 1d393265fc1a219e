import { z } from 'zod';
import { listOf, recordOf } from '../base/bounded.ts';
import type { FieldError } from '../base/errors.ts';
import type { Json } from '../base/json.ts';

const toolName = z.string().min(1).max(64);
const common = {
  tool_name: toolName,
  /** Accepted and ignored, as in Letta: the text of a rule is made from the rule. */
  prompt_template: z
    .string()
    .nullish()
    .transform((text) => text ?? null),
};
/** Rules are parsed JSON, so every value is JSON. */
const json = z.unknown() as z.ZodType<Json>;
const args = z
  .record(z.string(), json)
  .nullish()
  .transform((value) => value ?? null);

/** Maximum number of tools named by a rule; an agent has no more. */
const NAMED_MAX = 500;

function ruleSchema(namedMax: number, object: typeof z.strictObject) {
  return z.discriminatedUnion('type', [
    object({ type: z.literal('run_first'), ...common, args }),
    object({ type: z.literal('exit_loop'), ...common }),
    object({ type: z.literal('continue_loop'), ...common }),
    object({
      type: z.literal('constrain_child_tools'),
      ...common,
      children: listOf(toolName, namedMax),
      child_arg_nodes: listOf(object({ name: toolName, args }), namedMax)
        .nullish()
        .transform((nodes) => nodes ?? null),
    }).superRefine(({ children, child_arg_nodes }, context) => {
      const named = new Set(children);
      for (const [index, node] of (child_arg_nodes ?? []).entries()) {
        if (named.has(node.name)) continue;
        context.addIssue({
          code: 'custom',
          path: ['child_arg_nodes', index, 'name'],
          message: `'${node.name}' is not one of the children`,
        });
      }
    }),
    object({ type: z.literal('parent_last_tool'), ...common, children: listOf(toolName, namedMax) }),
    object({
      type: z.literal('conditional'),
      ...common,
      default_child: toolName.nullish().transform((name) => name ?? null),
      child_output_mapping: recordOf(toolName, namedMax).refine(
        (mapping) => Object.keys(mapping).length > 0,
        'must name at least one output: a conditional rule needs a child tool',
      ),
      require_output_mapping: z
        .boolean()
        .nullish()
        .transform((value) => value ?? false),
    }),
    object({ type: z.literal('max_count_per_step'), ...common, max_count_limit: z.int().min(1) }),
    object({ type: z.literal('required_before_exit'), ...common }),
    object({ type: z.literal('requires_approval'), ...common }),
  ]);
}

/** Schema of a tool rule in Letta's shapes, without other fields. Parsing sets absent fields to null. */
export const toolRuleSchema = ruleSchema(NAMED_MAX, z.strictObject);
/** Schema of a stored rule of any size with any other fields, so that its agent goes on. */
const storedRuleSchema = ruleSchema(Infinity, z.object);

/** A tool rule with all its fields. */
export type ToolRule = z.output<typeof toolRuleSchema>;
/** A tool rule of a single type. */
export type RuleOf<Type extends ToolRule['type']> = Extract<ToolRule, { readonly type: Type }>;

/** Parsed rules. With any problem no rule may be used: skipping a rule would allow too much. */
export interface ParsedRules {
  /** In the order given, without duplicates. */
  readonly rules: readonly ToolRule[];
  /** In the order given, with duplicates, so that an index names a rule. */
  readonly given: readonly ToolRule[];
  readonly problems: readonly FieldError[];
}

/**
 * Reads the stored tool rules of an agent or a definition.
 * Duplicates are equal by type, tool and, in any order, children. `path` of a problem is a JSON Pointer that begins
 * with `at`.
 */
export function parseToolRules(input: readonly unknown[], at = '/tool_rules'): ParsedRules {
  const rules = new Map<string, ToolRule>();
  const given: ToolRule[] = [];
  const problems: FieldError[] = [];
  for (const [index, entry] of input.entries()) {
    const parsed = storedRuleSchema.safeParse(entry);
    if (!parsed.success) {
      for (const issue of parsed.error.issues) {
        const path = [at, index, ...issue.path].map(String).join('/');
        problems.push({ path, message: issue.message });
      }
      continue;
    }
    given.push(parsed.data);
    const key = identityOf(parsed.data);
    if (!rules.has(key)) rules.set(key, parsed.data);
  }
  return { rules: [...rules.values()], given, problems };
}

/**
 * Returns a key that is equal for Letta's equal rules and equal arguments; otherwise a rule would lose its arguments.
 */
function identityOf(rule: ToolRule): string {
  switch (rule.type) {
    case 'constrain_child_tools':
      return JSON.stringify([rule.type, rule.tool_name, rule.children.toSorted(), rule.child_arg_nodes]);
    case 'parent_last_tool':
      return JSON.stringify([rule.type, rule.tool_name, rule.children.toSorted()]);
    case 'conditional': {
      const outputs = Object.entries(rule.child_output_mapping).toSorted(([a], [b]) => (a < b ? -1 : 1));
      return JSON.stringify([
        rule.type,
        rule.tool_name,
        outputs,
        rule.default_child,
        rule.require_output_mapping,
      ]);
    }
    case 'max_count_per_step':
      return JSON.stringify([rule.type, rule.tool_name, rule.max_count_limit]);
    case 'run_first':
      return JSON.stringify([rule.type, rule.tool_name, rule.args]);
    default:
      return JSON.stringify([rule.type, rule.tool_name]);
  }
}

/** Returns the rules of a type, in order. */
export function rulesOf<Type extends ToolRule['type']>(
  rules: readonly ToolRule[],
  type: Type,
): readonly RuleOf<Type>[] {
  return rules.filter((rule): rule is RuleOf<Type> => rule.type === type);
}

/** Returns the tools that a rule names. */
export function toolNamesIn(rule: ToolRule): readonly string[] {
  switch (rule.type) {
    case 'constrain_child_tools':
    case 'parent_last_tool':
      return [rule.tool_name, ...rule.children];
    case 'conditional':
      return [
        rule.tool_name,
        ...Object.values(rule.child_output_mapping),
        ...(rule.default_child === null ? [] : [rule.default_child]),
      ];
    default:
      return [rule.tool_name];
  }
}
