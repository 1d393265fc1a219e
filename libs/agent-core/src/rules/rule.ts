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
/** Rules come as JSON, so that any value of theirs is some. */
const json = z.unknown() as z.ZodType<Json>;
const args = z
  .record(z.string(), json)
  .nullish()
  .transform((value) => value ?? null);

/** Tools that one rule may name at most; an agent has no more. */
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

/** One tool rule as JSON, in the shapes that Letta knows, without other fields. Parsed, it has all of its own, absent ones as null. */
export const toolRuleSchema = ruleSchema(NAMED_MAX, z.strictObject);
/** A rule that was taken once, whatever its size and what else it holds: an agent that had it goes on. */
const storedRuleSchema = ruleSchema(Infinity, z.object);

/** A tool rule with all its fields. */
export type ToolRule = z.output<typeof toolRuleSchema>;
/** A tool rule of one type. */
export type RuleOf<Type extends ToolRule['type']> = Extract<ToolRule, { readonly type: Type }>;

/** Rules read from JSON; with any problem, nothing may be run by them: a rule that is left out would allow too much. */
export interface ParsedRules {
  /** In the order given, each once. */
  readonly rules: readonly ToolRule[];
  /** In the order given, equal ones too, so that a rule is named by its place. */
  readonly given: readonly ToolRule[];
  readonly problems: readonly FieldError[];
}

/**
 * Reads the tool rules of an agent or a definition, as they are stored. Rules that say the same are taken once: they are equal by type,
 * tool and, in any order, children. `path` of a problem is a JSON Pointer that begins with `at`.
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

/** Equal for rules that Letta holds to be equal; arguments count too, or one of two rules would lose its own. */
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

/** The rules of one type, in order. */
export function rulesOf<Type extends ToolRule['type']>(
  rules: readonly ToolRule[],
  type: Type,
): readonly RuleOf<Type>[] {
  return rules.filter((rule): rule is RuleOf<Type> => rule.type === type);
}
