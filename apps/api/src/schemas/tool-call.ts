import { TOOL_CALL_STATES } from '@nightshift/agent-core';
import { z } from 'zod';
import { STEP_ID } from './examples/ids.ts';
import { shownId, UUID } from './ids.ts';
import { shownTime } from './moment.ts';

const PATTERN = `^step-${UUID}:\\d{1,4}$`;

/** The id of a tool call as a cursor: its step, and its place among the calls of the step. */
export const toolCallCursor = z.string().regex(new RegExp(PATTERN), 'must be the id of a tool call');

/** A tool call on the wire. */
export const toolCallResponse = z
  .object({
    id: z
      .string()
      .meta({ pattern: PATTERN })
      .describe('Its step, and its place among the calls of the step, from 0.'),
    tool_call_id: z.string().describe("The model's id of the call."),
    step_id: shownId('step'),
    step_number: z.int(),
    name: z.string().describe('Of the tool.'),
    kind: z
      .enum(['memory', 'finish', 'module', 'sandbox', 'python', 'http', 'mcp', 'client', 'rejected'])
      .meta({ id: 'ToolCallKind' })
      .describe('`rejected`: a rule or the schema did not allow the call.'),
    state: z.enum(TOOL_CALL_STATES).meta({ id: 'ToolCallState' }),
    arguments: z.unknown().describe('As the model wrote them.'),
    result: z
      .string()
      .nullable()
      .describe('Null until it has ended. Its first 2,000 characters, unless `include` has `result`.'),
    result_chars: z.int().nullable().describe('Characters of the whole result; null until it has ended.'),
    awaits: z
      .enum(['approval', 'answer'])
      .nullable()
      .describe('What it needs of the caller: permission, or the result of a client tool.'),
    verdict: z.enum(['approved', 'denied', 'answered']).nullable().describe("The caller's answer."),
    attempts: z
      .int()
      .describe(
        'Recorded starts, or the requests of an HTTP tool if these are more. A call without side effects counts as one, even ' +
          'if a crash interrupted it before.',
      ),
    answer_bytes: z
      .int()
      .nullable()
      .describe('Bytes that the tool received over HTTP, with all attempts. Null without an answer.'),
    stdout: z
      .string()
      .nullable()
      .describe('First 4,096 characters of its standard output. Null without any.'),
    stderr: z.string().nullable().describe('First 4,096 characters of its error output. Null without any.'),
    created_at: shownTime.describe('When the answer with the call was stored.'),
    started_at: shownTime.nullable(),
    ended_at: shownTime.nullable(),
    duration_ms: z.int().nullable().describe('Time of the tool itself, without waits.'),
  })
  .meta({
    id: 'RunToolCall',
    examples: [
      {
        id: `${STEP_ID}:0`,
        tool_call_id: 'toolu_01A09q90qw90lq917835lq9',
        step_id: STEP_ID,
        step_number: 1,
        name: 'search_orders',
        kind: 'module',
        state: 'succeeded',
        arguments: { customer: 'Maria' },
        result: '2 orders',
        result_chars: 8,
        awaits: null,
        verdict: null,
        attempts: 1,
        answer_bytes: null,
        stdout: null,
        stderr: null,
        created_at: '2026-11-30T02:10:00.000Z',
        started_at: '2026-11-30T02:10:01.000Z',
        ended_at: '2026-11-30T02:10:01.120Z',
        duration_ms: 112,
      },
    ],
  });
export type ToolCallResponse = z.output<typeof toolCallResponse>;
