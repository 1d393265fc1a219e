import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { messageKeyOf } from '../../src/base/ids.ts';
import type { StoredMessage } from '../../src/wire/letta/stored-message.ts';
import { toInternalMessage } from '../../src/wire/letta/internal-message.ts';
import { toLettaMessages, type LettaMessage } from '../../src/wire/letta/union-message.ts';
import {
  called,
  conversationId,
  makeMessage,
  omitted,
  redacted,
  result,
  search,
  strangeBlocks,
  text,
  thinking,
  use,
} from './messages.ts';

test('one answer becomes thinking and text in order, then one message with all calls, under one id', () => {
  const calls = [use('toolu_1', 'rethink_memory', { new_memory: 'B' }), use('toolu_2', 'look_up', {})];
  const common = {
    id: 'message-0190a000-0000-7000-8000-000080000280',
    date: '2026-11-20T09:05:09+00:00',
    name: null,
    sender_id: null,
    step_id: 'step-0190a000-0000-7000-8000-000001000201',
    run_id: 'run-0190a000-0000-7000-8000-000001000000',
    appended: false,
    is_err: null,
    seq_id: null,
  };
  const first = { name: 'rethink_memory', arguments: '{"new_memory":"B"}', tool_call_id: 'toolu_1' };
  expect(toLettaMessages(makeMessage([thinking, redacted, omitted, text('Hi'), search, ...calls]))).toEqual([
    {
      ...common,
      otid: '0190a000-0000-7000-8000-000080000280',
      message_type: 'reasoning_message',
      reasoning: 'hm',
      source: 'reasoner_model',
      signature: 'sig',
    },
    {
      ...common,
      otid: '0190a000-0000-7000-8000-000080000281',
      message_type: 'hidden_reasoning_message',
      state: 'redacted',
      hidden_reasoning: 'xxx',
    },
    {
      ...common,
      otid: '0190a000-0000-7000-8000-000080000282',
      message_type: 'hidden_reasoning_message',
      state: 'omitted',
      hidden_reasoning: null,
    },
    {
      ...common,
      otid: '0190a000-0000-7000-8000-000080000283',
      message_type: 'assistant_message',
      content: 'Hi',
    },
    {
      ...common,
      otid: '0190a000-0000-7000-8000-000080000284',
      message_type: 'tool_call_message',
      tool_call: first,
      tool_calls: [first, { name: 'look_up', arguments: '{}', tool_call_id: 'toolu_2' }],
    },
  ]);
});

test('the results of parallel calls are one message, its own fields those of the first', () => {
  const row = makeMessage([result('toolu_1', 'B'), result('toolu_2', 'no such page', { is_error: true })], {
    role: 'user',
  });
  const names = new Map([
    ['toolu_1', called('rethink_memory')],
    ['toolu_2', called('look_up')],
  ]);
  expect(toLettaMessages(row, { returned_calls: names })).toMatchObject([
    {
      message_type: 'tool_return_message',
      name: 'rethink_memory',
      tool_return: 'B',
      status: 'success',
      tool_call_id: 'toolu_1',
      stdout: null,
      stderr: null,
      tool_returns: [
        {
          type: 'tool',
          tool_return: 'B',
          status: 'success',
          tool_call_id: 'toolu_1',
          stdout: null,
          stderr: null,
        },
        {
          type: 'tool',
          tool_return: 'no such page',
          status: 'error',
          tool_call_id: 'toolu_2',
          stdout: null,
          stderr: null,
        },
      ],
    },
  ]);
  expect(toLettaMessages(row)[0]).not.toHaveProperty('type');
});

/** Type and content of each item. */
const brief = (messages: readonly LettaMessage[]) =>
  messages.map((message) => [message.message_type, 'content' in message ? message.content : null]);

describe('the forms of a row', () => {
  const picture = { type: 'image', source: { type: 'url', url: 'x' } };
  test.each<[string, Parameters<typeof makeMessage>, unknown]>([
    ['one text of a user is a string', [[text('Hi')], { role: 'user' }], [['user_message', 'Hi']]],
    [
      'several are a list',
      [[text('a'), text('b')], { role: 'user' }],
      [['user_message', [text('a'), text('b')]]],
    ],
    ['so is a picture', [[picture], { role: 'user' }], [['user_message', [picture]]]],
    [
      'a user message without anything known',
      [strangeBlocks.slice(0, 6), { role: 'user' }],
      [['user_message', '']],
    ],
    ['an empty user message', [[], { role: 'user' }], [['user_message', '']]],
    ['a system message', [[text('a'), text('b')], { role: 'system' }], [['system_message', 'a\nb']]],
    [
      'several texts of an answer',
      [[text('a'), text('b')]],
      [
        ['assistant_message', 'a'],
        ['assistant_message', 'b'],
      ],
    ],
    ['an empty text beside a call', [[text(''), use('a', 'b', {})]], [['tool_call_message', null]]],
    ['an empty text alone', [[text('')]], [['assistant_message', '']]],
    ['an answer without content', [[]], [['assistant_message', '']]],
    ['an answer of unknown blocks', [strangeBlocks], [['assistant_message', '']]],
    [
      'text after results',
      [[result('a', 'x'), text('go on')], { role: 'user' }],
      [
        ['tool_return_message', null],
        ['user_message', 'go on'],
      ],
    ],
  ])('%s', (_name, args, expected) => {
    expect(brief(toLettaMessages(makeMessage(...args)))).toEqual(expected);
  });

  test('a user message keeps its sender’s otid, or has its row’s', () => {
    expect(
      toLettaMessages(makeMessage([text('a')], { role: 'user', otid: 'o', name: 'Ann' }))[0],
    ).toMatchObject({
      otid: 'o',
      name: 'Ann',
    });
    expect(toLettaMessages(makeMessage([text('a')], { role: 'user' }))[0]?.otid).toBe(
      '0190a000-0000-7000-8000-000080000280',
    );
  });
});

test('a row outside any run names neither run nor step', () => {
  const [item] = toLettaMessages(makeMessage([text('a')], { role: 'user', run_id: null, step: null }));
  expect(item).toMatchObject({ run_id: null, step_id: null, appended: true });
});

test('an appended message shows the time at which it was said, and its otid in the first item', () => {
  const appended = { run_id: null, step: null, otid: 'o', said_at: '2026-03-01T10:00:00.000Z' };
  const items = toLettaMessages(makeMessage([text('a'), text('b')], appended));
  expect(items.map(({ date, otid }) => [date, otid])).toEqual([
    ['2026-03-01T10:00:00+00:00', 'o'],
    ['2026-03-01T10:00:00+00:00', '0190a000-0000-7000-8000-000080000281'],
  ]);
  const [item] = toLettaMessages(makeMessage([text('a')], { ...appended, role: 'system', said_at: null }));
  expect(item).toMatchObject({ date: '2026-11-20T09:05:09+00:00', otid: 'o' });
});

test('the output of a call stands beside its result, as a list of one text', () => {
  const row = makeMessage([result('toolu_1', 'B'), result('toolu_2', 'no such page')], { role: 'user' });
  const returned_calls = new Map([
    ['toolu_1', called('look_up', { stdout: 'one\ntwo\n' })],
    ['toolu_2', called('look_up', { stderr: 'lost' })],
  ]);
  const printed = { stdout: ['one\ntwo\n'], stderr: null };
  expect(toLettaMessages(row, { returned_calls })).toMatchObject([
    { ...printed, tool_returns: [printed, { stdout: null, stderr: ['lost'] }] },
  ]);
  expect(toInternalMessage(row, returned_calls).tool_returns).toMatchObject([
    printed,
    { stdout: null, stderr: ['lost'] },
  ]);
});

describe('send_message', () => {
  const answer = makeMessage([use('a', 'send_message', { message: 'Hello' }), use('b', 'look_up', {})]);
  const results = makeMessage([result('a', 'Sent'), result('b', 'found')], { role: 'user' });
  const returned_calls = new Map([
    ['a', called('send_message')],
    ['b', called('look_up')],
  ]);

  test('is shown as its text, and its result is left out', () => {
    expect(brief(toLettaMessages(answer))).toEqual([
      ['assistant_message', 'Hello'],
      ['tool_call_message', null],
    ]);
    expect(toLettaMessages(results, { returned_calls })).toMatchObject([
      { tool_call_id: 'b', tool_returns: [{ tool_call_id: 'b' }], name: 'look_up' },
    ]);
    const only = makeMessage([result('a', 'Sent')], { role: 'user' });
    expect(toLettaMessages(only, { returned_calls })).toEqual([]);
  });

  test('is a call like any other without use_assistant_message', () => {
    const options = { use_assistant_message: false, returned_calls };
    expect(toLettaMessages(answer, options)).toMatchObject([
      { message_type: 'tool_call_message', tool_calls: [{ tool_call_id: 'a' }, { tool_call_id: 'b' }] },
    ]);
    expect(toLettaMessages(results, options)).toMatchObject([{ tool_returns: [{ tool_call_id: 'a' }, {}] }]);
  });

  test('may be another tool, whose result is left out, and another argument', () => {
    const said = makeMessage([
      use('a', 'send_message', { message: 'Hello' }),
      use('b', 'say', { text: 'Hi' }),
    ]);
    const options = { assistant_message_tool_name: 'say', returned_calls: new Map([['b', called('say')]]) };
    const named = { ...options, assistant_message_tool_kwarg: 'text' };
    expect(toLettaMessages(said, named)).toMatchObject([
      { message_type: 'assistant_message', content: 'Hi' },
      { message_type: 'tool_call_message', tool_calls: [{ tool_call_id: 'a' }] },
    ]);
    expect(toLettaMessages(said, options)).toMatchObject([{ tool_calls: [{}, { tool_call_id: 'b' }] }]);
    expect(toLettaMessages(results, named)).toMatchObject([{ tool_returns: [{ tool_call_id: 'a' }] }]);
  });

  test.each([[{ message: 1 }], [{}], ['Hello'], [null]])('with the input %j is a call', (input) => {
    expect(brief(toLettaMessages(makeMessage([use('a', 'send_message', input)])))).toEqual([
      ['tool_call_message', null],
    ]);
  });
});

describe('for any row', () => {
  const block = fc.oneof(
    fc.constantFrom<object>(thinking, omitted, redacted, search, text(''), text('x'), ...strangeBlocks),
    fc.constantFrom<object>(
      use('a', 'send_message', { message: 'm' }),
      use('a', 'b', []),
      result('a', [null]),
      result('b', 1),
    ),
    fc.record({ type: fc.string(), text: fc.jsonValue(), content: fc.jsonValue(), input: fc.jsonValue() }),
  );
  const row = fc.record({
    content: fc.array(block, { maxLength: 8 }),
    role: fc.constantFrom<StoredMessage['role']>('user', 'assistant', 'system'),
    seq: fc.integer({ min: 0, max: 0xff_ffff }),
  });

  test('both forms are made; items share the id of the row and differ in their otid', () => {
    fc.assert(
      fc.property(row, ({ content, role, seq }) => {
        const message = makeMessage(content, { role, seq });
        const internal = toInternalMessage(message);
        const items = toLettaMessages(message);
        expect(items.length).toBeGreaterThan(0);
        expect(new Set(items.map((item) => item.id))).toEqual(new Set([internal.id]));
        expect(new Set(items.map((item) => item.otid)).size).toBe(items.length);
        for (const item of items)
          expect(messageKeyOf(item.otid)).toEqual({ conversation_id: conversationId, seq });
      }),
      { numRuns: 500 },
    );
  });

  test('an otid never runs into the next message', () => {
    const items = toLettaMessages(makeMessage(Array.from({ length: 200 }, () => text('x'))));
    expect(items).toHaveLength(200);
    for (const item of items) expect(messageKeyOf(item.otid).seq).toBe(5);
  });
});
