import { describe, expect, test } from 'vitest';
import { paramsIssue } from '../src/validate/params.ts';
import type { ValidationContext } from '../src/validate/issue.ts';

const user = (content: unknown = 'hi'): object => ({ role: 'user', content });
const assistant = (content: unknown): object => ({ role: 'assistant', content });
const system = (): object => ({ role: 'system', content: 'Be brief.' });
const call = (id: string, name = 'look'): object => ({ type: 'tool_use', id, name, input: {} });
const result = (id: string): object => ({ type: 'tool_result', tool_use_id: id, content: 'ok' });
const text = (value = 'words'): object => ({ type: 'text', text: value });
const tool = (name = 'look'): object => ({ name, input_schema: { type: 'object', properties: {} } });
const mark = { cache_control: { type: 'ephemeral' } };
const markHour = { cache_control: { type: 'ephemeral', ttl: '1h' } };

const good = { model: 'claude-opus-5', max_tokens: 100, messages: [user()] };

function issueOf(change: object, context: Partial<ValidationContext> = {}): string | undefined {
  const params = { ...good, ...change };
  const issue = paramsIssue(params, {
    endpoint: 'batch',
    version: '2026-10-21',
    betas: [],
    seed: 's',
    paramsBytes: JSON.stringify(params).length,
    ...context,
  });
  return issue && `${issue.type}: ${issue.message}`;
}

describe('invalid params, refused one by one when the batch ends', () => {
  test.each<[string, object, RegExp]>([
    ['an unknown member', { extra_body: 1 }, /extra_body: Extra inputs are not permitted/],
    ['temperature', { temperature: 1 }, /temperature: Extra inputs are not permitted/],
    ['top_p', { top_p: 0.5 }, /top_p: Extra/],
    ['top_k', { top_k: 5 }, /top_k: Extra/],
    ['streaming', { stream: true }, /stream/],
    ['fast mode', { speed: 'fast' }, /speed/],
    ['fallbacks', { fallbacks: [] }, /fallbacks: not supported/],
    ['an unknown model', { model: 'claude-9' }, /^not_found_error: model: claude-9/],
    ['no model', { model: undefined }, /model/],
    ['no max_tokens', { max_tokens: undefined }, /max_tokens: Field required/],
    ['max_tokens 0', { max_tokens: 0 }, /max_tokens: /],
    ['max_tokens beyond the model', { max_tokens: 200_000 }, /max_tokens: 200000 > 128000/],
    ['no messages', { messages: [] }, /at least one message/],
    ['an assistant first', { messages: [assistant('x'), user()] }, /first message must use the "user" role/],
    [
      'a system message on an earlier model',
      { model: 'claude-opus-4-7', messages: [user(), system()] },
      /messages\.1: role 'system' is not supported on this model/,
    ],
    [
      'a system message on Sonnet 5',
      { model: 'claude-sonnet-5', messages: [user(), system()] },
      /role 'system' is not supported/,
    ],
    ['a system message first', { messages: [system(), user()] }, /first message must use the "user" role/],
    [
      'a system message before a user',
      { messages: [user(), system(), user()] },
      /messages\.1: a system message/,
    ],
    [
      'a system message behind an answer',
      { messages: [user(), assistant('x'), system(), system()] },
      /messages\.2: a system message must follow a user message/,
    ],
    ['another role', { messages: [{ role: 'tool', content: 'x' }] }, /role/],
    ['an empty string', { messages: [user('')] }, /non-empty content/],
    ['an empty list', { messages: [user([])] }, /non-empty content/],
    ['an empty text', { messages: [user([text('')])] }, /non-empty/],
    ['a text of white space', { messages: [user([text('a'), text(' \n')])] }, /non-whitespace/],
    [
      'an empty assistant message',
      { messages: [user(), assistant([]), user()] },
      /messages\.1: all messages must have non-empty/,
    ],
    ['another member of a message', { messages: [{ ...user(), name: 'x' }] }, /messages\.0\.name: Extra/],
    ['a prefill', { messages: [user(), assistant('So')] }, /does not support assistant message prefill/],
    [
      'a call without result',
      { messages: [user(), assistant([call('t1')]), user('no')] },
      /ids were found without `tool_result`/,
    ],
    [
      'a call at the end',
      { messages: [user(), assistant([call('t1')])] },
      /ids were found without `tool_result`/,
    ],
    [
      'one result of two missing',
      { messages: [user(), assistant([call('t1'), call('t2')]), user([result('t1')])] },
      /t2/,
    ],
    [
      'a result too many',
      { messages: [user(), assistant([call('t1')]), user([result('t1'), result('t9')])] },
      /unexpected `tool_use_id`/,
    ],
    ['a result out of nowhere', { messages: [user([result('t1')])] }, /unexpected `tool_use_id`/],
    [
      'two results of one call',
      { messages: [user(), assistant([call('t1')]), user([result('t1'), result('t1')])] },
      /single result/,
    ],
    [
      'text before a result',
      { messages: [user(), assistant([call('t1')]), user([text(), result('t1')])] },
      /must come first/,
    ],
    [
      'two calls of one id',
      { messages: [user(), assistant([call('t1'), call('t1')]), user([result('t1')])] },
      /ids must be unique/,
    ],
    ['a tool call by the user', { messages: [user([call('t1')])] }, /only be in `assistant`/],
    [
      'a document by the assistant',
      { messages: [user(), assistant([{ type: 'document' }]), user()] },
      /document/,
    ],
    ['citations by the user', { messages: [user([{ ...text(), citations: [{}] }])] }, /citations/],
    ['two tools of one name', { tools: [tool(), tool()] }, /Tool names must be unique/],
    ['a tool name with a dot', { tools: [tool('a.b')] }, /pattern/],
    ['a tool name too long', { tools: [tool('x'.repeat(65))] }, /pattern/],
    ['a tool without schema', { tools: [{ name: 'x' }] }, /input_schema: Field required/],
    [
      'a schema that is no object',
      { tools: [{ name: 'x', input_schema: { type: 'string' } }] },
      /should be 'object'/,
    ],
    [
      'a schema with a property key that is not taken',
      { tools: [{ name: 'x', input_schema: { type: 'object', properties: { 'due date': {} } } }] },
      /: tools\.0\.custom\.input_schema\.properties: Property keys should match pattern/,
    ],
    ['a choice without tools', { tool_choice: { type: 'any' } }, /while providing tools/],
    [
      'a choice of a tool that is not there',
      { tools: [tool()], tool_choice: { type: 'tool', name: 'b' } },
      /not found/,
    ],
    [
      'a forced tool on a new model',
      { model: 'claude-sonnet-5-5', tools: [tool()], tool_choice: { type: 'any' } },
      /forced tool use/,
    ],
    [
      'thinking off on a new model',
      { model: 'claude-opus-5-5', thinking: { type: 'disabled' } },
      /cannot be disabled/,
    ],
    [
      'a thinking budget on a newer model',
      { thinking: { type: 'enabled', budget_tokens: 2000 } },
      /"enabled" is not supported/,
    ],
    ['an odd thinking type', { thinking: { type: 'deep' } }, /thinking/],
    [
      'a budget of thinking that is off',
      { thinking: { type: 'disabled', budget_tokens: 1024 } },
      /thinking\.disabled\.budget_tokens: Extra inputs are not permitted/,
    ],
    [
      'a budget of adaptive thinking',
      { thinking: { type: 'adaptive', budget_tokens: 1024 } },
      /thinking\.adaptive\.budget_tokens: Extra/,
    ],
    [
      'an effort of a model that knows none',
      { model: 'claude-haiku-4-5', output_config: { effort: 'low' } },
      /does not support the effort parameter/,
    ],
    [
      'five cache marks',
      { messages: [user([1, 2, 3, 4, 5].map(() => ({ ...text(), ...mark })))] },
      /maximum of 4 blocks/,
    ],
    [
      'an hour after five minutes',
      { system: [{ ...text(), ...mark }], messages: [user([{ ...text(), ...markHour }])] },
      /must not come after/,
    ],
    [
      'a forged thinking block',
      {
        messages: [user(), assistant([{ type: 'thinking', thinking: 'x', signature: 'y' }, text()]), user()],
      },
      /cannot be modified/,
    ],
    [
      'an open server tool use',
      {
        messages: [
          user(),
          assistant([{ type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }]),
          user(),
        ],
      },
      /`web_search` tool use with id `s1`/,
    ],
    ['a blank stop sequence', { stop_sequences: [' '] }, /stop_sequences\.0/],
    ['a user id too long', { metadata: { user_id: 'u'.repeat(257) } }, /user_id/],
  ])('%s', (_name, change, message) => {
    expect(issueOf(change)).toMatch(message);
  });

  test('a prompt longer than the context window', () => {
    expect(issueOf({}, { paramsBytes: 4_000_004 })).toMatch(/prompt is too long: 1000001 tokens > 1000000/);
  });
});

describe('valid params', () => {
  test.each<[string, object]>([
    ['the minimum', {}],
    [
      'a call and its result, then words',
      { tools: [tool()], messages: [user(), assistant([text(), call('t1')]), user([result('t1'), text()])] },
    ],
    [
      'parallel calls',
      { messages: [user(), assistant([call('t1'), call('t2')]), user([result('t2'), result('t1')])] },
    ],
    ['system messages behind a user', { messages: [user(), system(), system(), assistant('x'), user()] }],
    ['unknown blocks echoed', { messages: [user(), assistant([{ type: 'hologram', x: 1 }]), user()] }],
    [
      'a paused turn sent back',
      {
        messages: [
          user(),
          assistant([text(), { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }]),
        ],
      },
    ],
    ['a prefill on an old model', { model: 'claude-haiku-4-5', messages: [user(), assistant('So')] }],
    ['a forced tool on an old model', { tools: [tool()], tool_choice: { type: 'tool', name: 'look' } }],
    ['a server tool', { tools: [tool(), { type: 'web_search_20250305', name: 'web_search' }] }],
    [
      'four cache marks, hours first',
      {
        system: [{ ...text(), ...markHour }],
        messages: [user([1, 2, 3].map(() => ({ ...text(), ...mark })))],
      },
    ],
    ['a dated model', { model: 'claude-sonnet-4-5-20250929' }],
    ['an effort', { output_config: { effort: 'low' }, thinking: { type: 'adaptive', display: 'omitted' } }],
  ])('%s', (_name, change) => {
    expect(issueOf(change)).toBeUndefined();
  });

  test('sampling under the old version', () => {
    expect(issueOf({ temperature: 0.5, top_p: 0.9, top_k: 3 }, { version: '2023-06-01' })).toBeUndefined();
  });

  test('300,000 output tokens with the beta, in a batch', () => {
    const betas = ['output-300k-2026-03-24'];
    expect(issueOf({ max_tokens: 300_000 }, { betas })).toBeUndefined();
    expect(issueOf({ max_tokens: 300_000 }, { betas, endpoint: 'messages' })).toMatch(/max_tokens/);
  });

  test('token counting needs no max_tokens', () => {
    expect(issueOf({ max_tokens: undefined }, { endpoint: 'count_tokens' })).toMatch(/max_tokens: Extra/);
    const { max_tokens: _unused, ...counted } = good;
    expect(
      paramsIssue(counted, {
        endpoint: 'count_tokens',
        version: '2026-10-21',
        betas: [],
        seed: '',
        paramsBytes: 50,
      }),
    ).toBeUndefined();
  });
});
