import { isJsonObject, listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { ignored } from './ignored.ts';

const toolCallId = z.string().min(1).max(300);

const NO_TYPE = 'must be approval or tool; it may be absent beside approve, or beside tool_return and status';

/** Adds the absent type, which Letta's clients may omit, from the fields of the item. */
function withType(given: unknown): unknown {
  if (!isJsonObject(given) || given['type'] !== undefined) return given;
  const isApproval = 'approve' in given;
  if (isApproval === ('tool_return' in given || 'status' in given)) return given;
  return { ...given, type: isApproval ? 'approval' : 'tool' };
}

const approval = z.strictObject({
  type: z.literal('approval').describe('May be absent beside `approve`.'),
  tool_call_id: toolCallId,
  approve: z.boolean(),
  reason: z.string().max(10_000).nullish().describe('Shown to the model when the call is denied.'),
});
const result = z.strictObject({
  type: z.literal('tool').describe('May be absent beside `tool_return` and `status`.'),
  tool_call_id: toolCallId,
  tool_return: z.string().max(1_000_000).describe('The result that the model reads.'),
  status: z.enum(['success', 'error']),
  stderr: ignored,
  stdout: ignored,
});

/** The caller's answer to a call, in the shapes of Letta's approvals. */
const callerAnswer = z.preprocess(withType, z.discriminatedUnion('type', [approval, result], NO_TYPE));
export type CallerAnswerInput = z.output<typeof callerAnswer>;

/** Fields of clients before `approvals`, which answer a message instead of a call. */
const ofOldClients = z
  .null(
    'names no call: send approvals, with {type, tool_call_id, approve, reason} for each call in waits_for of the run',
  )
  .optional();

/** Letta's ApprovalCreate. */
export const toolResultsInput = z
  .strictObject({
    type: z.literal('approval', 'must be approval').optional(),
    approvals: listOf(callerAnswer, 500).min(1, 'must not be empty'),
    approval_request_id: ofOldClients,
    approve: ofOldClients,
    reason: ofOldClients,
    group_id: ignored,
  })
  .superRefine(({ approvals }, context) => {
    const places = new Map<string, number>();
    for (const [index, { tool_call_id }] of approvals.entries()) {
      const first = places.get(tool_call_id);
      places.set(tool_call_id, first ?? index);
      if (first === undefined) continue;
      const message = `repeats /approvals/${first}`;
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
