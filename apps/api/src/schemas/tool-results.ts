import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { ignored } from './ignored.ts';

const toolCallId = z.string().min(1).max(300);

/** What a caller says of one call, in the shapes of Letta's approvals. */
const callerAnswer = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('approval'),
    tool_call_id: toolCallId,
    approve: z.boolean(),
    reason: z.string().max(10_000).nullish().describe('Told to the model when the call is denied.'),
  }),
  z.strictObject({
    type: z.literal('tool'),
    tool_call_id: toolCallId,
    tool_return: z.string().max(1_000_000).describe('What the model reads as the result.'),
    status: z.enum(['success', 'error']),
    stderr: ignored,
    stdout: ignored,
  }),
]);
export type CallerAnswerInput = z.output<typeof callerAnswer>;

export const toolResultsInput = z
  .strictObject({ approvals: listOf(callerAnswer, 500).min(1, 'must not be empty') })
  .superRefine(({ approvals }, context) => {
    const places = new Map<string, number>();
    for (const [index, { tool_call_id }] of approvals.entries()) {
      const first = places.get(tool_call_id);
      places.set(tool_call_id, first ?? index);
      if (first === undefined) continue;
      const message = `is the same as that of /approvals/${first}`;
      context.addIssue({ code: 'custom', path: ['approvals', index, 'tool_call_id'], message });
    }
  })
  .meta({
    id: 'ToolResults',
    examples: [
      {
        approvals: [
          { type: 'approval', tool_call_id: 'toolu_01A', approve: false, reason: 'Too expensive.' },
          { type: 'tool', tool_call_id: 'toolu_01B', tool_return: '42', status: 'success' },
        ],
      },
    ],
  });
