import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Definition } from '../../src/model/definition.ts';
import type { ToolDefinition } from '../../src/model/tool.ts';
import {
  BODY_END,
  BODY_SEPARATOR,
  BODY_START,
  encodeDefinition,
  encodeFrame,
  encodeRequest,
  openingBytes,
  requestInParts,
  utf8Length,
} from '../../src/wire/anthropic/encode.ts';

const appendTool: ToolDefinition = {
  name: 'core_memory_append',
  kind: 'memory',
  description: 'Appends to a block.',
  input_schema: { type: 'object', properties: { label: { type: 'string' } }, required: ['label'] },
  side_effects: 'idempotent',
  return_char_limit: 50_000,
  timeout_ms: 1000,
  requires_approval: false,
};

function definition(
  given: Partial<Definition> & { extra?: JsonObject; parallel?: boolean } = {},
): Definition {
  const { extra = {}, parallel = true, ...rest } = given;
  return {
    id: '00000000-0000-7000-8000-000000000000',
    agent_type: 'letta_v1_agent',
    system: 'Be kind.',
    model: 'anthropic/claude-opus-5-5',
    model_settings: { max_output_tokens: 4096, parallel_tool_calls: parallel, extra },
    tool_rules: [],
    tools: [appendTool],
    context_window_limit: 128_000,
    compaction: { mode: 'none' },
    ...rest,
  };
}

const STATIC_MARK = { static: true, memory: false, end: false };

const messages_json = '[{"role":"user","content":"hi"}]';

function params(given: Parameters<typeof definition>[0], memory = ''): JsonObject {
  const text = encodeRequest('id-1', encodeDefinition(definition(given)), {
    memory,
    messages_json,
    max_tokens: 9,
    marks: STATIC_MARK,
  });
  return (JSON.parse(text) as { params: JsonObject }).params;
}

describe('a request', () => {
  test('is this text, to the byte', () => {
    const encoded = encodeDefinition(
      definition({ parallel: false, extra: { thinking: { type: 'adaptive' } } }),
    );
    const text = encodeRequest('n0nce1-00-1', encoded, {
      memory: 'likes "tea"\n',
      messages_json: '[{"role":"user","content":[{"type":"text","text":"hi"}]}]',
      max_tokens: 77,
      marks: { static: true, memory: true, end: true },
    });
    expect(text).toBe(
      '{"custom_id":"n0nce1-00-1","params":{"model":"claude-opus-5-5","max_tokens":77,' +
        '"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral","ttl":"1h"}},' +
        '{"type":"text","text":"likes \\"tea\\"\\n","cache_control":{"type":"ephemeral","ttl":"1h"}}],' +
        '"tools":[{"name":"core_memory_append","description":"Appends to a block.","input_schema":' +
        '{"type":"object","properties":{"label":{"type":"string"}},"required":["label"]}}],' +
        '"tool_choice":{"type":"auto","disable_parallel_tool_use":true},' +
        '"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":' +
        '[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}}',
    );
  });

  test.each([
    [
      'behind an answer',
      '[{"role":"user","content":[]},{"role":"assistant","content":[{"type":"text","text":"so"}]}]',
    ],
    ['beside a mark', '[{"role":"user","content":[{"type":"text","text":"x","cache_control":null}]}]'],
    ['without a block', '[{"role":"user","content":[]}]'],
  ])('gets no mark at its end %s', (_case, messages) => {
    const at = (end: boolean): string =>
      encodeRequest('n-1', encodeDefinition(definition()), {
        ...{ memory: '', messages_json: messages, max_tokens: 9 },
        marks: { static: true, memory: true, end },
      });
    expect(at(true)).toBe(at(false));
  });

  test.each(['assistant', 'system'])('begins with the user, also where the %s speaks first', (role) => {
    const messages = [
      { role, content: [{ type: 'text', text: 'Hello.' }] },
      { role: 'user', content: 'hi' },
    ];
    const encode = (spoken: readonly object[]): string =>
      encodeRequest('id-1', encodeDefinition(definition()), {
        memory: '',
        messages_json: JSON.stringify(spoken),
        max_tokens: 9,
      });
    const opened = JSON.parse(encode(messages)) as { params: { messages: { role: string }[] } };
    expect(opened.params.messages.slice(1)).toEqual(messages);
    expect(opened.params.messages[0]?.role).toBe('user');
    const [user] = messages.slice(1);
    expect(utf8Length(encode(messages)) - utf8Length(encode([user!, ...messages]))).toBe(
      openingBytes(role) - utf8Length(JSON.stringify(user)) - 1,
    );
    expect([openingBytes('user'), openingBytes(undefined)]).toEqual([0, 0]);
  });

  test('parses to its arguments, whatever the texts hold, and is the same text every time', () => {
    const text = fc.string({ unit: 'binary' });
    const names = fc.string().filter((name) => name !== '__proto__');
    const settings = fc.dictionary(names, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 5 });
    fc.assert(
      fc.property(
        text,
        text,
        fc.array(fc.jsonValue({ maxDepth: 2 })),
        settings,
        fc.nat(),
        (system, memory, list, extra, n) => {
          const given = definition({ system, extra: extra as JsonObject });
          const parts = {
            memory,
            messages_json: JSON.stringify(list),
            max_tokens: n + 1,
            marks: STATIC_MARK,
          };
          const encoded = encodeDefinition(given);
          const request = encodeRequest('a_b-c', encoded, parts);

          const blocks: object[] = [];
          if (system.trim() !== '') {
            const cache_control = { type: 'ephemeral', ttl: '1h' };
            blocks.push({ type: 'text', text: system.toWellFormed(), cache_control });
          }
          if (memory.trim() !== '') blocks.push({ type: 'text', text: memory.toWellFormed() });
          const kept = Object.entries(extra).filter(([name]) => !encoded.dropped.includes(name));
          const { name, description, input_schema } = appendTool;
          expect(JSON.parse(request)).toEqual({
            custom_id: 'a_b-c',
            params: {
              ...(JSON.parse(JSON.stringify(Object.fromEntries(kept))) as object),
              model: 'claude-opus-5-5',
              max_tokens: n + 1,
              ...(blocks.length > 0 && { system: blocks }),
              tools: [{ name, description, input_schema }],
              messages: JSON.parse(parts.messages_json) as unknown,
            },
          });
          expect(encodeRequest('a_b-c', encodeDefinition(structuredClone(given)), parts)).toBe(request);
          // Parts written separately make the same bytes: no surrogate pair is split.
          const frame = encodeFrame(encoded, memory, null, STATIC_MARK);
          const written = requestInParts('a_b-c', encoded, { ...parts, frame, end_mark: false }).map((part) =>
            Buffer.from(part),
          );
          expect(Buffer.concat(written).equals(Buffer.from(request))).toBe(true);
        },
      ),
    );
  });

  test('carries stored messages unchanged, odd spacing, escapes and numbers included', () => {
    const stored =
      '[ {"role":"assistant","content":[{"type":"x","n":1.0e2,"s":"\\u0000\\uD83d\\ude00\\/"} ]}\n]';
    const text = encodeRequest('a', encodeDefinition(definition()), {
      memory: '',
      messages_json: stored,
      max_tokens: 1,
    });
    expect(text.endsWith(`,"messages":${stored}}}`)).toBe(true);
  });

  test('leaves out a blank system prompt', () => {
    expect(params({ system: ' \n' }, '\t')).not.toHaveProperty('system');
    expect(params({ system: '' }, 'm')['system']).toEqual([{ type: 'text', text: 'm' }]);
  });

  test.each([
    ['You are Sam.\n{CORE_MEMORY}\nBe brief.', 'You are Sam.\nBe brief.'],
    ['Know: {CORE_MEMORY}!', 'Know: !'],
    ['Be kind.\n {CORE_MEMORY}', 'Be kind.\n'],
  ])('shows memory behind the prompt, and not the place %j that was kept for it', (system, shown) => {
    expect(params({ system }, 'memory')['system']).toMatchObject([{ text: shown }, { text: 'memory' }]);
  });

  test('replaces a lone surrogate, for which the provider would refuse the whole body, wherever it stands', () => {
    expect(params({ system: 'a\ud800b' })['system']).toMatchObject([{ text: 'a\ufffdb' }]);
    const half = '\udbff';
    const given = definition({
      system: half,
      model: `anthropic/${half}`,
      extra: { [half]: [half], tool_choice: { type: 'tool', name: half } },
      tools: [
        { ...appendTool, name: half, description: half, input_schema: { type: 'object', [half]: half } },
      ],
    });
    const said = [{ role: 'user', content: [{ type: 'text', text: half, [half]: half }] }];
    const encoded = encodeDefinition(given, [half]);
    const forced = { type: 'tool', name: half };
    const parts = { memory: half, messages_json: JSON.stringify(said), max_tokens: 1, tool_choice: forced };
    const text = encodeRequest('a', encoded, parts);
    expect(text).not.toMatch(/\\ud[89a-f]/i);
    expect((JSON.parse(text) as { params: JsonObject }).params['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: '\ufffd', '\ufffd': '\ufffd' }] },
    ]);
    expect(encodeRequest('a', encoded, { ...parts, tool_choice: null })).not.toMatch(/\\ud[89a-f]/i);
  });

  test.each([0, -1, 1.5, Number.NaN, Infinity])('is refused with max_tokens %s', (max_tokens) => {
    const encoded = encodeDefinition(definition());
    expect(() => encodeRequest('a', encoded, { memory: '', messages_json, max_tokens })).toThrow(
      /max_tokens/,
    );
  });

  test.each(['', '{}', '[', 'null'])('is refused with messages %j', (odd) => {
    const encoded = encodeDefinition(definition());
    expect(() => encodeRequest('a', encoded, { memory: '', messages_json: odd, max_tokens: 1 })).toThrow(
      /messages_json/,
    );
  });

  test('fits between the ends of a body', () => {
    const one = encodeRequest('a', encodeDefinition(definition()), {
      memory: '',
      messages_json,
      max_tokens: 1,
    });
    const body = JSON.parse(BODY_START + one + BODY_SEPARATOR + one + BODY_END) as { requests: unknown[] };
    expect(body.requests).toEqual([JSON.parse(one), JSON.parse(one)]);
  });
});

describe('a definition', () => {
  test('names the model without its provider', () => {
    expect(params({ model: 'anthropic/claude-haiku-5-5' })['model']).toBe('claude-haiku-5-5');
    expect(params({ model: 'claude-haiku-5-5' })['model']).toBe('claude-haiku-5-5');
  });

  test('drops members that the API refuses or that have another source, and says so', () => {
    const extra = {
      temperature: 0,
      top_p: 1,
      top_k: 5,
      stream: true,
      model: 'x',
      output_config: { effort: 'low' },
    };
    const encoded = encodeDefinition(definition({ extra }));
    expect(encoded.dropped).toEqual(['temperature', 'top_p', 'top_k', 'stream', 'model']);
    expect(params({ extra })).toMatchObject({ model: 'claude-opus-5-5', output_config: { effort: 'low' } });
    expect(params({ extra })).not.toHaveProperty('temperature');
  });

  test('drops the effort for a model without effort, and says so', () => {
    const format = { type: 'json_schema', schema: {} };
    const model = 'anthropic/claude-haiku-4-5';
    const sent = (output_config: JsonObject) => {
      const given = { model, extra: { output_config } };
      return [params(given)['output_config'], encodeDefinition(definition(given)).dropped];
    };
    expect(sent({ effort: 'low' })).toEqual([undefined, ['output_config.effort']]);
    expect(sent({ effort: 'low', format })).toEqual([{ format }, ['output_config.effort']]);
    expect(sent({ format })).toEqual([{ format }, []]);
  });

  test.each([['adaptive'], ['disabled'], ['enabled']])(
    'gives a budget only with enabled thinking: %s',
    (type) => {
      const given = { extra: { thinking: { type, budget_tokens: 1_024 } } };
      const isEnabled = type === 'enabled';
      expect(params(given)['thinking']).toEqual(isEnabled ? given.extra.thinking : { type });
      expect(encodeDefinition(definition(given)).dropped).toEqual(
        isEnabled ? [] : ['thinking.budget_tokens'],
      );
    },
  );

  test.each<[string, boolean, JsonObject, unknown]>([
    ['no choice by default', true, {}, undefined],
    [
      'one call at a time when parallel calls are off',
      false,
      {},
      { type: 'auto', disable_parallel_tool_use: true },
    ],
    ['the choice that was asked for', true, { tool_choice: { type: 'any' } }, { type: 'any' }],
    [
      'both together',
      false,
      { tool_choice: { type: 'tool', name: 'x' } },
      { type: 'tool', name: 'x', disable_parallel_tool_use: true },
    ],
    ['no limit on a choice of none', false, { tool_choice: { type: 'none' } }, { type: 'none' }],
    ['no choice for an unusable choice', true, { tool_choice: 'any' }, undefined],
  ])('sends %s', (_name, parallel, extra, expected) => {
    expect(params({ parallel, extra })['tool_choice']).toEqual(expected);
  });

  test('marks the tools that the provider enforces, and no other', () => {
    const tools = [appendTool, { ...appendTool, name: 'other' }];
    const sent = params({ tools, strict: { tools: ['other'], result_format: false } })[
      'tools'
    ] as JsonObject[];
    expect(sent.map(({ name, strict }) => [name, strict])).toEqual([
      ['core_memory_append', undefined],
      ['other', true],
    ]);
  });

  test('sends the schema of the result as output format beside the effort, where the provider enforces it', () => {
    const schema = { type: 'object', properties: {}, additionalProperties: false };
    const typed = { result_format: { schema }, extra: { output_config: { effort: 'low' } } };
    const format = { type: 'json_schema', schema };
    const output_config = { effort: 'low', format };
    const enforced = { tools: [], result_format: true };
    expect(params({ ...typed, strict: enforced })).toMatchObject({ output_config });
    expect(params({ result_format: { schema }, strict: enforced })['output_config']).toEqual({ format });
    expect(
      params({ ...typed, model: 'anthropic/claude-haiku-4-5', strict: enforced })['output_config'],
    ).toEqual({
      format,
    });
    for (const strict of [null, { tools: [], result_format: false }]) {
      expect(params({ ...typed, strict })['output_config']).toEqual({ effort: 'low' });
    }
  });

  test('sends neither tools nor a tool choice without tools', () => {
    const without = { tools: [], parallel: false, extra: { tool_choice: { type: 'auto' } } };
    expect(params(without)).not.toHaveProperty('tools');
    expect(params(without)).not.toHaveProperty('tool_choice');
    expect(params({ tools: [] })).not.toHaveProperty('tools');
    expect(encodeDefinition(definition(without)).dropped).toEqual(['tool_choice']);
  });

  test('sends server tools unchanged behind the tools, also alone, where a tool choice stays', () => {
    const search = { type: 'web_search_20260318', name: 'web_search', user_location: { city: 'Oslo' } };
    const sent = params({ tools: [appendTool], server_tools: [search] })['tools'] as JsonObject[];
    expect(sent.slice(1)).toEqual([search]);
    const alone = params({ tools: [], server_tools: [search], parallel: false });
    expect(alone['tools']).toEqual([search]);
    expect(alone['tool_choice']).toEqual({ type: 'auto', disable_parallel_tool_use: true });
  });

  test('leaves out an empty tool description', () => {
    const tools = [{ ...appendTool, description: '' }];
    expect(params({ tools })['tools']).toEqual([
      { name: appendTool.name, input_schema: appendTool.input_schema },
    ]);
  });
});

test('utf8Length counts the bytes of an encoder', () => {
  const text = fc.string({
    unit: fc.oneof(
      fc.nat(0x10ffff).map((c) => String.fromCodePoint(c)),
      fc.constant('\ud83d'),
    ),
  });
  const encoder = new TextEncoder();
  fc.assert(
    fc.property(text, (given) => {
      expect(utf8Length(given)).toBe(encoder.encode(given).length);
    }),
  );
  expect(utf8Length('aé€😀\udc00\ud800')).toBe(1 + 2 + 3 + 4 + 3 + 3);
});
