import type { LettaMessage, Run, Step } from '@nightshift/client';
import { expect, test } from 'vitest';
import { entriesOf } from '../src/run-log.ts';

const run = (fields: Partial<Run>): Run =>
  ({ completed_at: null, waits_for: null, next_attempt_at: null, last_error: null, ...fields }) as Run;
const step = (fields: Partial<Step>): Step =>
  ({
    id: 'step-1',
    number: 1,
    attempt: 1,
    state: 'done',
    model_handle: 'm',
    error_data: null,
    prompt_tokens: 1200,
    completion_tokens: 3,
    cost_usd: '0.5',
    created_at: '2026-12-01T02:00:01.500Z',
    completed_at: '2026-12-01T02:05:01.700Z',
    ...fields,
  }) as Step;
const message = (fields: object): LettaMessage =>
  ({ otid: '', step_id: null, date: '2026-12-01T02:00:01+00:00', ...fields }) as unknown as LettaMessage;

test('an answer comes before its messages, although these have whole seconds', () => {
  const entries = entriesOf(
    run({
      completed_at: '2026-12-01T02:05:02Z',
      state: 'failed',
      ended_reason: 'max_steps',
      error: { message: 'Too long.' },
    }),
    [
      message({ message_type: 'user_message', content: [{ type: 'text', text: 'Hi' }, { type: 'image' }] }),
      message({
        message_type: 'tool_call_message',
        step_id: 'step-1',
        date: '2026-12-01T02:05:01+00:00',
        tool_calls: [{ name: 'search', arguments: '{"q":1}' }],
      }),
      message({
        message_type: 'tool_return_message',
        step_id: 'step-1',
        date: '2026-12-01T02:05:01+00:00',
        status: 'error',
        tool_return: 'none',
      }),
    ],
    [step({})],
  );
  expect(entries.map(({ kind, text }) => `${kind}: ${text}`)).toEqual([
    'user: Hi\n(image)',
    'request: step 1 to m',
    'answer: step 1 done after 5 min: 1,200 tokens in, 3 out, $0.50',
    'call: search({"q":1})',
    'result: error: none',
    'end: failed, max_steps: Too long.',
  ]);
});

test('a wait says what for', () => {
  const last = (fields: Partial<Run>): string | undefined => entriesOf(run(fields), [], []).at(-1)?.text;
  expect(last({ waits_for: { type: 'run', run_id: 'run-2' } })).toBe(
    'for its conversation, which run-2 holds',
  );
  expect(
    last({
      waits_for: {
        type: 'caller',
        tool_calls: [{ tool_call_id: 'c', tool_name: 'ask', arguments: {}, awaits: 'answer' }],
      },
    }),
  ).toBe('for the results of ask from its caller');
  expect(
    last({
      next_attempt_at: '2026-12-01T03:00:00Z',
      last_error: { message: 'Overloaded' } as Run['last_error'],
    }),
  ).toBe('until 2026-12-01T03:00:00Z, to try the step again: Overloaded');
  expect(last({})).toBeUndefined();
});
