import { toolRuleSchema } from '@nightshift/agent-core';

/** A tool rule; parsed, it has all its fields, as Letta echoes it. */
export const toolRule = toolRuleSchema
  .superRefine(({ type }, context) => {
    if (type !== 'requires_approval') return;
    const message = 'cannot be requires_approval: batches do not offer approval yet';
    context.addIssue({ code: 'custom', path: ['type'], message });
  })
  .describe('requires_approval is refused.');
