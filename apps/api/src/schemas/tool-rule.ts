import { z } from 'zod';

const common = { tool_name: z.string(), prompt_template: z.string().nullish() };
const args = z.record(z.string(), z.unknown()).nullish();

/** A rule of a single type in an answer. Stored rules may have more fields. */
function rule<Type extends string, Shape extends z.core.$ZodLooseShape>(type: Type, shape: Shape) {
  return z.looseObject({ type: z.literal(type), ...common, ...shape });
}

/** A tool rule in an answer, discriminated by `type`. */
export const toolRuleResponse = z
  .discriminatedUnion('type', [
    rule('run_first', { args }),
    rule('exit_loop', {}),
    rule('continue_loop', {}),
    rule('constrain_child_tools', {
      children: z.array(z.string()),
      child_arg_nodes: z
        .array(z.looseObject({ name: z.string(), args }).meta({ id: 'ChildArguments' }))
        .nullish(),
    }),
    rule('parent_last_tool', { children: z.array(z.string()) }),
    rule('conditional', {
      default_child: z.string().nullish(),
      child_output_mapping: z.record(z.string(), z.string()),
      require_output_mapping: z.boolean().nullish(),
    }),
    rule('max_count_per_step', { max_count_limit: z.int() }),
    rule('required_before_exit', {}),
    rule('requires_approval', {}),
  ])
  .meta({ id: 'AgentToolRule' });
