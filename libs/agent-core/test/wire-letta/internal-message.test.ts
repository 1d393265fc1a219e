import { describe, expect, test } from 'vitest';
import { toLettaTime } from '../../src/base/letta-time.ts';
import { toInternalMessage } from '../../src/wire/letta/internal-message.ts';
import { toLettaDate } from '../../src/wire/letta/tool-return.ts';
import {
  called,
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

const time = '2026-11-20 09:05:09 AM UTC+0000';

test('an answer with thinking, text and parallel calls keeps all of them', () => {
  const calls = [use('toolu_1', 'rethink_memory', { new_memory: 'B' }), use('toolu_2', 'look_up', {})];
  expect(toInternalMessage(makeMessage([thinking, omitted, redacted, text('Hi'), ...calls, search]))).toEqual(
    {
      id: 'message-0190a000-0000-7000-8000-000080000280',
      role: 'assistant',
      agent_id: 'agent-0190a000-0000-7000-8000-00000000000a',
      content: [
        { type: 'reasoning', is_native: true, reasoning: 'hm', signature: 'sig' },
        { type: 'omitted_reasoning', signature: 'sig' },
        { type: 'redacted_reasoning', data: 'xxx' },
        { type: 'text', text: 'Hi' },
      ],
      provider_content: [search],
      tool_calls: [
        {
          id: 'toolu_1',
          type: 'function',
          function: { name: 'rethink_memory', arguments: '{"new_memory":"B"}' },
        },
        { id: 'toolu_2', type: 'function', function: { name: 'look_up', arguments: '{}' } },
      ],
      tool_call_id: 'toolu_1',
      tool_returns: [],
      name: null,
      batch_item_id: 'batch_item-0190a000-0000-7000-8000-000001000000',
      model: 'claude-x',
      created_at: '2026-11-20T09:05:09.123456Z',
      updated_at: '2026-11-20T09:05:09.123456Z',
      created_by_id: null,
      last_updated_by_id: null,
      otid: null,
      run_id: 'run-0190a000-0000-7000-8000-000001000000',
      step_id: 'step-0190a000-0000-7000-8000-000001000201',
      group_id: null,
      sender_id: null,
      conversation_id: 'conversation-0190a000-0000-7000-8000-000080000000',
      is_err: null,
      approval_request_id: null,
      approve: null,
      denial_reason: null,
      approvals: [],
    },
  );
});

test('the results of parallel calls are one packaged tool message', () => {
  const row = makeMessage([result('toolu_1', 'B'), result('toolu_2', 'no such page', { is_error: true })], {
    role: 'user',
  });
  const names = new Map([
    ['toolu_1', called('rethink_memory')],
    ['toolu_2', called('look_up')],
  ]);
  const message = toInternalMessage(row, names);
  const packages = [
    JSON.stringify({ status: 'OK', message: 'B', time }),
    JSON.stringify({ status: 'Failed', message: 'no such page', time }),
  ];
  expect(message).toMatchObject({
    role: 'tool',
    content: packages.map((value) => text(value)),
    tool_calls: null,
    tool_call_id: 'toolu_1',
    tool_returns: [
      { tool_call_id: 'toolu_1', status: 'success', func_response: packages[0], stdout: null, stderr: null },
      { tool_call_id: 'toolu_2', status: 'error', func_response: packages[1], stdout: null, stderr: null },
    ],
    name: 'rethink_memory',
    model: null,
  });
  expect(toInternalMessage(row).name).toBe(null);
});

describe('the form of a row', () => {
  test.each<[string, Parameters<typeof makeMessage>, object]>([
    [
      'a user message keeps its otid and name',
      [[text('Hi')], { role: 'user', step: null, otid: 'o', name: 'Ann' }],
      {
        role: 'user',
        content: [text('Hi')],
        otid: 'o',
        name: 'Ann',
        step_id: null,
        tool_call_id: null,
        tool_calls: null,
      },
    ],
    [
      'a message without a run',
      [[text('Hi')], { role: 'user', step: null, run_id: null }],
      { run_id: null, batch_item_id: null, step_id: null },
    ],
    [
      'a system message',
      [[text('Rules')], { role: 'system', step: null }],
      { role: 'system', content: [text('Rules')] },
    ],
    [
      'a picture',
      [[{ type: 'image', source: { type: 'url', url: 'x' } }], { role: 'user' }],
      { content: [{ type: 'image', source: { type: 'url', url: 'x' } }], provider_content: [] },
    ],
    [
      'a picture of a kind that is not known, or without its data',
      [
        [
          { type: 'image', source: { type: 'file', file_id: 'x' } },
          { type: 'image', source: { type: 'base64' } },
        ],
        { role: 'user' },
      ],
      { content: [], provider_content: [{ type: 'image' }, { type: 'image' }] },
    ],
    ['an empty text', [[text('')]], { content: [text('')] }],
    ['an answer without content', [[]], { content: [], tool_calls: null, tool_returns: [] }],
    ['a bare call', [[use('a', 'b', { c: 1 })]], { content: [], tool_call_id: 'a' }],
    [
      'a call without input',
      [[use('a', 'b', undefined)]],
      { tool_calls: [{ function: { arguments: '{}' } }] },
    ],
    [
      'text after results',
      [[result('a', 'x'), text('go on')], { role: 'user' }],
      { role: 'tool', content: [{}, text('go on')] },
    ],
    [
      'blocks of other types are kept apart, untouched',
      [strangeBlocks],
      { content: [], provider_content: strangeBlocks },
    ],
    [
      'thinking without a signature',
      [[{ type: 'thinking', thinking: 'a' }]],
      { content: [{ reasoning: 'a', signature: null }] },
    ],
    [
      'a tool use that the user sent is no call',
      [[use('a', 'b', {})], { role: 'user' }],
      { tool_calls: null },
    ],
  ])('%s', (_name, args, expected) => {
    expect(toInternalMessage(makeMessage(...args))).toMatchObject(expected);
  });

  test.each<[unknown, string]>([
    ['x', 'x'],
    ['', ''],
    [undefined, ''],
    [null, ''],
    [[text('a'), text('b')], 'a\nb'],
    [[text('a'), { type: 'image', source: 1 }, null, 'x'], 'a\n{"type":"image","source":1}\nnull\n"x"'],
    [{ a: 1 }, '{"a":1}'],
    [7, '7'],
  ])('a result of %j has the text %j', (content, expected) => {
    const message = toInternalMessage(makeMessage([result('a', content)], { role: 'user' }));
    expect(JSON.parse(message.tool_returns[0]?.func_response ?? '')).toMatchObject({ message: expected });
  });

  test('every key is present in every form', () => {
    const keysOf = (row: Parameters<typeof makeMessage>) =>
      Object.keys(toInternalMessage(makeMessage(...row)));
    const keys = keysOf([[thinking]]);
    expect(keysOf([[result('a', 'b')], { role: 'user' }])).toEqual(keys);
    expect(keysOf([[], { role: 'system' }])).toEqual(keys);
  });
});

describe('times', () => {
  test.each([
    ['2026-11-20T00:05:09.999Z', '2026-11-20 12:05:09 AM UTC+0000', '2026-11-20T00:05:09+00:00'],
    ['2026-11-20T11:59:59Z', '2026-11-20 11:59:59 AM UTC+0000', '2026-11-20T11:59:59+00:00'],
    ['2026-11-20T12:00:00Z', '2026-11-20 12:00:00 PM UTC+0000', '2026-11-20T12:00:00+00:00'],
    ['2026-11-20T23:00:00+02:00', '2026-11-20 09:00:00 PM UTC+0000', '2026-11-20T21:00:00+00:00'],
  ])('%s', (iso, packed, date) => {
    expect(toLettaTime(new Date(iso))).toBe(packed);
    expect(toLettaDate(iso)).toBe(date);
  });
});
