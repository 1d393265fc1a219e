import { z } from 'zod';

const toolName = z.string().min(1).max(64);
const common = {
  tool_name: toolName,
  prompt_template: z
    .string()
    .nullish()
    .transform((text) => text ?? null),
};
const args = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? null);

/** What batches carry out. A run always goes on after calls, which is all that `continue_loop` asks for. */
const CARRIED_OUT: ReadonlySet<string> = new Set(['exit_loop', 'continue_loop']);

const anyRule = z.discriminatedUnion('type', [
  z.object({ type: z.literal('run_first'), ...common, args }),
  z.object({ type: z.literal('exit_loop'), ...common }),
  z.object({ type: z.literal('continue_loop'), ...common }),
  z.object({
    type: z.literal('constrain_child_tools'),
    ...common,
    children: z.array(toolName),
    child_arg_nodes: z
      .array(z.object({ name: toolName, args }))
      .nullish()
      .transform((nodes) => nodes ?? null),
  }),
  z.object({ type: z.literal('parent_last_tool'), ...common, children: z.array(toolName) }),
  z.object({
    type: z.literal('conditional'),
    ...common,
    default_child: toolName.nullish().transform((name) => name ?? null),
    child_output_mapping: z
      .record(z.string(), toolName)
      .refine((mapping) => Object.keys(mapping).length > 0, 'must name at least one output'),
    require_output_mapping: z
      .boolean()
      .nullish()
      .transform((value) => value ?? false),
  }),
  z.object({ type: z.literal('max_count_per_step'), ...common, max_count_limit: z.int().min(1) }),
  z.object({ type: z.literal('required_before_exit'), ...common }),
  z.object({ type: z.literal('requires_approval'), ...common }),
]);

/**
 * A tool rule; parsed, it has all its fields, as Letta echoes it. A rule that would not be carried out is refused: what it
 * forbids would happen.
 */
export const toolRule = anyRule
  .superRefine(({ type }, context) => {
    if (CARRIED_OUT.has(type)) return;
    const message =
      type === 'requires_approval'
        ? 'cannot be requires_approval: batches do not offer approval yet'
        : `cannot be ${type}: batches do not offer it yet, only exit_loop and continue_loop`;
    context.addIssue({ code: 'custom', path: ['type'], message });
  })
  .describe('Batches carry out exit_loop and continue_loop; the other types are refused.');
