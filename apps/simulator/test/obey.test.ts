import { expect, test } from 'vitest';
import type { Message } from '../src/scripts/script.ts';
import { answer, callsOf, converse, params, textIn, tools } from './support/converse.ts';

const plan = `Please do this:
{"tool":"look","args":{"where":"here"}}
{"tool":"add","args":{"a":1,"b":2},"parallel":true}
 {"tool": "look", "args": {"where": "there"}}
Thank you.`;

test('the calls of a plan come in order, parallel calls in one turn, then the turn ends', () => {
  const answers = converse(params(plan));
  expect(answers.map(({ stop_reason }) => stop_reason)).toEqual(['tool_use', 'tool_use', 'end_turn']);
  expect(callsOf(answers[0]).map(({ name, input }) => [name, input])).toEqual([
    ['look', { where: 'here' }],
    ['add', { a: 1, b: 2 }],
  ]);
  expect(callsOf(answers[1]).map(({ input }) => input)).toEqual([{ where: 'there' }]);
  expect(textIn(answers[2])).toBe('Done after 3 tool results. The last one said: ok');
});

test('a text without a plan ends the turn at once', () => {
  const [only] = converse(params('Just say hello.'));
  expect(only).toMatchObject({
    stop_reason: 'end_turn',
    content: [{ type: 'text', text: 'Understood: Just say hello.' }],
  });
});

test('an error among the results is mentioned', () => {
  const answers = converse(params('{"tool":"look"}'), 5, () => ({
    content: 'no such place',
    is_error: true,
  }));
  expect(textIn(answers[1])).toBe(
    'Done after 1 tool result, 1 of them errors. The last one said: no such place',
  );
});

test('a new message starts a new plan', () => {
  const messages = [
    { role: 'user', content: plan },
    { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
    { role: 'user', content: [{ type: 'text', text: '{"tool":"add","args":{"a":5,"b":5}}' }] },
  ];
  const answers = converse(params('', { messages }));
  expect(callsOf(answers[0]).map(({ input }) => input)).toEqual([{ a: 5, b: 5 }]);
  expect(answers).toHaveLength(2);
});

test('a remark beside tool results does not end the plan', () => {
  const first = answer(params(plan));
  const results = callsOf(first).map((call) => ({
    type: 'tool_result',
    tool_use_id: call['id'] ?? '',
    content: 'ok',
  }));
  const messages = [
    { role: 'user', content: plan },
    { role: 'assistant', content: first.content },
    { role: 'user', content: [...results, { type: 'text', text: 'Two steps are left.' }] },
  ];
  expect(callsOf(answer(params('', { messages }))).map(({ input }) => input)).toEqual([{ where: 'there' }]);
});

test('a plan inside a JSON envelope is found', () => {
  const wrapped = JSON.stringify({ type: 'user_message', message: plan, time: '2026-11-20' });
  expect(callsOf(answer(params(wrapped)))).toHaveLength(2);
});

test('other lines are ignored', () => {
  const text = '{"tool": 5}\n{"tool":"x"\n[{"tool":"x"}]\n"tool"';
  expect(answer(params(text)).stop_reason).toBe('end_turn');
});

test('the tool choice of the request is respected', () => {
  expect(answer(params(plan, { tool_choice: { type: 'none' } })).stop_reason).toBe('end_turn');
  const single = converse(params(plan, { tool_choice: { type: 'auto', disable_parallel_tool_use: true } }));
  expect(single.map((answered) => callsOf(answered).length)).toEqual([1, 1, 1, 0]);
  const forced = answer(params('hello', { tool_choice: { type: 'tool', name: 'add' } }));
  expect(callsOf(forced)).toMatchObject([
    { name: 'add', input: { a: expect.any(Number), b: expect.any(Number) } },
  ]);
});

test('a forced tool is called first, with the arguments of its line, then the plan continues', () => {
  const forced = (messages: Message[], name: string) =>
    answer(params('', { messages, tool_choice: { type: 'tool', name } }));
  const asked = {
    role: 'user',
    content: '{"tool":"look","args":{"where":"here"}}\n{"tool":"add","args":{"a":1,"b":2}}',
  };
  const first = forced([asked], 'add');
  expect(callsOf(first).map(({ name, input }) => [name, input])).toEqual([['add', { a: 1, b: 2 }]]);
  const results = callsOf(first).map((call) => ({
    type: 'tool_result',
    tool_use_id: call['id'] ?? '',
    content: '3',
  }));
  const later = [asked, { role: 'assistant', content: first.content }, { role: 'user', content: results }];
  expect(callsOf(answer(params('', { messages: later }))).map(({ name }) => name)).toEqual(['look']);
  expect(callsOf(forced(later, 'add')).map(({ name }) => name)).toEqual(['add']);
  const unplanned = forced([{ ...asked, content: '{"tool":"look"}' }], 'add');
  expect(callsOf(unplanned).map(({ name }) => name)).toEqual(['add']);
});

test('the JSON of an answer line is the text after the calls of the plan', () => {
  const answers = converse(params('Sort this ticket.\n{"tool":"look"}\n{"answer":{"team":"billing"}}'));
  expect(answers.map((answered) => textIn(answered))).toEqual(['', '{"team":"billing"}']);
});

test('with thinking enabled, a thinking block comes first and can be echoed through the whole loop', () => {
  const answers = converse(params(plan, { thinking: { type: 'adaptive' }, model: 'claude-opus-5-5' }));
  expect(answers).toHaveLength(3);
  for (const { content } of answers)
    expect(content[0]).toMatchObject({ type: 'thinking', signature: expect.any(String) });
});

test('a plan may call tools that the request does not offer', () => {
  expect(callsOf(answer(params('{"tool":"ghost"}', { tools: tools.slice(0, 1) })))).toMatchObject([
    { name: 'ghost', input: {} },
  ]);
});
