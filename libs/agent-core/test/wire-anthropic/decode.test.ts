import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { JSON_DEPTH_MAX } from '../../src/base/json.ts';
import { NO_USAGE } from '../../src/model/usage.ts';
import {
  billAtEnd,
  decodeLongLine,
  decodeResultLine,
  TOKENS_MAX,
  type DecodedAnswer,
} from '../../src/wire/anthropic/decode.ts';
import { salvageCustomId } from '../../src/wire/anthropic/salvage.ts';

/** Makes a line as the API writes it, from the raw text of its content and usage. */
function line(contentJson: string, usageJson = '{"input_tokens":11,"output_tokens":36}'): string {
  return (
    '{"custom_id":"a-1","result":{"type":"succeeded","message":{"id":"msg_01","type":"message","role":"assistant",' +
    `"model":"claude-opus-5","content":${contentJson},"stop_reason":"end_turn","stop_sequence":null,` +
    `"stop_details":null,"container":null,"usage":${usageJson}}}}`
  );
}

function answered(text: string): DecodedAnswer {
  const decoded = decodeResultLine(text);
  if (decoded.kind !== 'answered') throw new Error(JSON.stringify(decoded));
  return decoded.answer;
}

function unreadable(
  text: string,
  custom_id: string | null,
  reason: string,
  bill: object | null = null,
): void {
  expect(decodeResultLine(text)).toEqual({ kind: 'unreadable', custom_id, reason, bill });
}

function unusable(text: string, custom_id: string, reason: string, bill: object): void {
  expect(decodeResultLine(text)).toEqual({ kind: 'unusable', custom_id, reason, bill });
}

/** The bill of a {@link line}. */
const BILL = {
  stop_reason: 'end_turn',
  usage: { ...NO_USAGE, input_tokens: 11, output_tokens: 36 },
  message_id: 'msg_01',
  model: 'claude-opus-5',
};

describe('an answer', () => {
  test('is read with everything that the next action depends on', () => {
    const content = '[{"type":"text","text":"Hello","citations":null}]';
    const usage =
      '{"input_tokens":11,"output_tokens":36,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,' +
      '"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"service_tier":"batch"}';
    expect(decodeResultLine(`${line(content, usage)}\r\n`)).toEqual({
      kind: 'answered',
      custom_id: 'a-1',
      answer: {
        content: [{ type: 'text', text: 'Hello', citations: null }],
        content_json: content,
        stop_reason: 'end_turn',
        usage: {
          input_tokens: 11,
          output_tokens: 36,
          cache_write_5m_tokens: 3,
          cache_write_1h_tokens: 4,
          cache_read_tokens: 5,
        },
        message_id: 'msg_01',
        model: 'claude-opus-5',
      },
    });
  });

  test('may be empty, like a refusal', () => {
    const refusal = line('[]')
      .replace('"end_turn"', '"refusal"')
      .replace('"stop_details":null', '"stop_details":{"type":"refusal","category":"cyber"}');
    expect(answered(refusal)).toMatchObject({
      content: [],
      content_json: '[]',
      stop_reason: 'refusal',
    });
  });

  test('may lack everything but its content', () => {
    const text = '{"result":{"message":{"content":[]},"type":"succeeded"},"custom_id":"z"}';
    expect(answered(text)).toEqual({
      content: [],
      content_json: '[]',
      stop_reason: null,
      usage: NO_USAGE,
      message_id: null,
      model: null,
    });
  });

  test('names its model, made storable', () => {
    const text = line('[]').replace('"claude-opus-5"', '"a\\u0000\\ud800b"');
    expect(answered(text).model).toBe('a\ufffdb');
  });
});

describe('content is kept to the character', () => {
  test.each([
    '[ {"type" : "text",\t"text":"a\\u0000\\ud83d\\/"} ]',
    '[{"type":"text","text":"\\\\\\"","n":1e400,"m":-0.0,"big":12345678901234567890}]',
    '[{"type":"text","type":"tool_use","id":"x","name":"y","input":{"content":[1],"message":{"content":[]}}}]',
    '[{"type":"unheard_of","data":[[],{},"]}",[["\\"]"]]]}]',
    '[{"type":"thinking","thinking":"","signature":"Eq=="},{"type":"text","text":"\u2028\u2029 😀"}]',
    '[]',
    '[\n]',
  ])('%j', (content) => {
    const answer = answered(line(content));
    expect(answer.content_json).toBe(content);
    expect(answer.content).toEqual(JSON.parse(content));
  });

  test('for any content, in any spelling of the same line', () => {
    const block = fc
      .dictionary(fc.oneof(fc.constantFrom('content', 'message', 'result'), fc.string()), fc.jsonValue())
      .map((members) => ({ ...members, type: 'any' }));
    fc.assert(
      fc.property(fc.array(block), fc.infiniteStream(fc.nat(11)), (blocks, choices) => {
        const spell = spelling(choices);
        const content = spell(blocks);
        const message = [`${spell('content')}:${content}`, `${spell('id')}:"m"`, `${spell('usage')}:{}`];
        const result = [`${spell('type')}:"succeeded"`, `${spell('message')}: {${message.join(' ,')} }`];
        const text = `\t{${spell('custom_id')}:"i" , ${spell('result')} : {${result.join(',')}}} `;
        const answer = answered(text);
        expect(answer.content_json).toBe(content);
        expect(answer.content).toEqual(JSON.parse(content));
      }),
    );
  });

  test('and of members named twice the last counts, as it does for the parser', () => {
    const inner = '"content":[{"type":"old"}],"content":[{"type":"new"}]';
    const doubled = `{"custom_id":"c","result":{"type":"succeeded","message":{"content":[{"type":"x"}]},"message":{${inner}}}}`;
    expect(answered(doubled).content_json).toBe('[{"type":"new"}]');
    const escaped =
      '{"custom_id":"c","result":{"type":"succeeded","message":{"cont\\u0065nt":[{"type":"e"}]}}}';
    expect(answered(escaped).content_json).toBe('[{"type":"e"}]');
    unreadable(
      '{"custom_id":"c","result":{"message":{"content":[]}},"result":{"type":"succeeded","message":7}}',
      'c',
      'succeeded without a message',
    );
  });
});

describe('usage', () => {
  test.each([
    ['missing', '{}', {}],
    ['null', 'null', {}],
    ['a text', '"many"', {}],
    ['null counts', '{"input_tokens":null,"cache_creation":null}', {}],
    [
      'undivided cache writes, at the price of an hour',
      '{"cache_creation_input_tokens":9}',
      { cache_write_1h_tokens: 9 },
    ],
    [
      'partly divided cache writes',
      '{"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3}}',
      { cache_write_5m_tokens: 2, cache_write_1h_tokens: 7 },
    ],
    [
      'web searches',
      '{"server_tool_use":{"web_search_requests":3,"web_fetch_requests":1}}',
      { web_searches: 3 },
    ],
    ['no web search', '{"server_tool_use":null}', {}],
    [
      'an absurd number of web searches',
      '{"server_tool_use":{"web_search_requests":1e300}}',
      { web_searches: 1_000_000 },
    ],
  ])('%s is plain', (_name, json, expected) => {
    const answer = answered(line('[]', json));
    expect(answer.usage).toEqual({ ...NO_USAGE, ...expected });
  });

  test.each([
    ['-5', 0],
    ['1.2', 2],
    ['1e400', TOKENS_MAX],
    ['-1e400', 0],
    ['4000000000', TOKENS_MAX],
    ['"12"', 0],
    ['true', 0],
  ])('a count of %s is bent into %s and the answer still counts, for it is paid', (json, output_tokens) => {
    const answer = answered(line('[]', `{"output_tokens":${json}}`));
    expect(answer.usage).toEqual({ ...NO_USAGE, output_tokens });
  });
});

describe('an errored line', () => {
  const outer = (error: string) => `{"custom_id":"b","result":{"type":"errored","error":${error}}}`;

  test('is judged by its inner error', () => {
    const error =
      '{"type":"error","error":{"type":"invalid_request_error","message":"no","details":{"error_code":"c"}},"request_id":"req_1"}';
    expect(decodeResultLine(outer(error))).toEqual({
      kind: 'errored',
      custom_id: 'b',
      error_type: 'invalid_request_error',
      message: 'no',
      error_code: 'c',
    });
  });

  test('may come without the envelope', () => {
    expect(decodeResultLine(outer('{"type":"api_error","message":"x"}'))).toMatchObject({
      error_type: 'api_error',
      message: 'x',
      error_code: null,
    });
  });

  test.each(['null', '"boom"', '[]', '{"error":{"type":5,"message":{}}}'])(
    'of %s is an error all the same',
    (error) => {
      expect(decodeResultLine(outer(error))).toMatchObject({
        kind: 'errored',
        error_type: 'unknown_error',
        message: '',
      });
    },
  );

  test('keeps a readable part of an endless message', () => {
    const decoded = decodeResultLine(outer(`{"type":"api_error","message":"${'😀'.repeat(5000)}"}`));
    expect(decoded).toMatchObject({ message: '😀'.repeat(1000) });
  });
});

test.each(['expired', 'canceled'] as const)('a line can be %s', (kind) => {
  expect(decodeResultLine(`{"custom_id":"d","result":{"type":"${kind}"}}`)).toEqual({ kind, custom_id: 'd' });
});

describe('unreadable content is reported, never thrown', () => {
  test.each(['', ' ', '\r', '\t \n', '\ufeff'])('%j is blank', (text) => {
    expect(decodeResultLine(text)).toEqual({ kind: 'blank' });
  });

  test('a byte order mark does not spoil a line', () => {
    expect(decodeResultLine(`\ufeff${line('[]')}`).kind).toBe('answered');
  });

  test.each([
    ['null', null, 'not a JSON object'],
    ['7', null, 'not a JSON object'],
    ['"text"', null, 'not a JSON object'],
    ['[{"custom_id":"a"}]', null, 'not a JSON object'],
    ['{}', null, 'no custom_id'],
    ['{"custom_id":5,"result":{"type":"expired"}}', null, 'no custom_id'],
    ['{"custom_id":"","result":{"type":"expired"}}', null, 'no custom_id'],
    ['<html>502</html>', null, 'not JSON'],
    ['{"custom_id":"a","result":{"type":', 'a', 'not JSON'],
    ['{"custom_id":"a","result":{"type":"expired"}}}', 'a', 'not JSON'],
    ['{"custom_id":"a" "result"', 'a', 'not JSON'],
    ['{"custom_id" 1', null, 'not JSON'],
    ['{"custom_id', null, 'not JSON'],
    ['{"\\x":1}', null, 'not JSON'],
    ['{"custom_id":"a",}', 'a', 'not JSON'],
  ])('%j is unreadable', (text, custom_id, reason) => unreadable(text, custom_id, reason));

  test.each([
    ['{"custom_id":"a"}', 'no result'],
    ['{"custom_id":"a","result":[]}', 'no result'],
    ['{"custom_id":"a","result":{}}', 'unknown result type'],
    ['{"custom_id":"a","result":{"type":"paused\\u0000"}}', "unknown result type 'paused'"],
    ['{"custom_id":"a","result":{"type":"succeeded"}}', 'succeeded without a message'],
    ['{"custom_id":"a","result":{"type":"succeeded","message":{}}}', 'content is not an array'],
  ])('%j has no usage, so it is no paid answer and unreadable', (text, reason) =>
    unreadable(text, 'a', reason),
  );

  test.each([
    [line('"text"'), 'content is not an array'],
    [line('{"type":"text"}'), 'content is not an array'],
    [line('[]').replace('"succeeded"', '"paused"'), "unknown result type 'paused'"],
    [line('[{"type":"text"},null]'), 'content[1] is not a content block'],
    [line('[{"text":"x"}]'), 'content[0] is not a content block'],
  ])('%j is whole, paid and of no use', (text, reason) => unusable(text, 'a-1', reason, BILL));

  test('content may be nested as deep as can be stored, and no deeper', () => {
    const nested = (depth: number) => `[{"type":"x","d":${'['.repeat(depth - 2)}${']'.repeat(depth - 2)}}]`;
    expect(answered(line(nested(JSON_DEPTH_MAX))).content_json).toBe(nested(JSON_DEPTH_MAX));
    const reason = `nested deeper than ${JSON_DEPTH_MAX} levels`;
    for (const depth of [JSON_DEPTH_MAX + 1, 20_000, 1_000_000]) {
      unusable(line(nested(depth)), 'a-1', reason, BILL);
    }
    // The same members in another order, and an error that nests too deep.
    const usage = '"usage":{"input_tokens":1,"output_tokens":2}';
    const turned = `{"result":{"message":{${usage},"content":${nested(300)}},"type":"succeeded"},"custom_id":"z"}`;
    expect(decodeResultLine(turned)).toMatchObject({
      ...{ kind: 'unusable', custom_id: 'z', reason },
      bill: { usage: { input_tokens: 1, output_tokens: 2 } },
    });
    const error = `{"type":"api_error","message":"x","deep":${nested(300)}}`;
    const errored = `{"custom_id":"e","result":{"type":"errored","error":${error}}}`;
    expect(decodeResultLine(errored)).toMatchObject({ kind: 'errored', error_type: 'api_error' });
  });

  test('a bomb of brackets costs no more than its length', () => {
    unreadable('['.repeat(5_000_000), null, 'not JSON');
    unreadable(`{"custom_id":"bomb","x":${'{"a":'.repeat(1_000_000)}`, 'bomb', 'not JSON');
  });

  test('a line of very many members costs no more than its length', () => {
    const members = '"k":"\\\\",'.repeat(500_000);
    expect(decodeResultLine(`{${members}"custom_id":"d","result":{"type":"expired"}}`).kind).toBe('expired');
    const quotes = '\\"'.repeat(500_000);
    expect(answered(line(`[{"type":"text","text":"${quotes}"}]`)).content_json).toHaveLength(1_000_027);
  });

  test('every cut of a line is unreadable, names its step once the id is whole, and its cost once the usage is', () => {
    const whole = line('[{"type":"text","text":"a \\"quoted\\" word"}]');
    const idEnd = '{"custom_id":"a-1"'.length;
    for (let end = 1; end < whole.length; end++) {
      const bill = end >= whole.length - '}}}'.length ? BILL : null;
      unreadable(whole.slice(0, end), end >= idEnd ? 'a-1' : null, 'not JSON', bill);
    }
  });

  test('any text at all gets an answer', () => {
    const start = line('[{"type":"text","text":"x"}]');
    const mangled = fc
      .tuple(fc.nat(start.length), fc.nat(6), fc.string({ unit: 'binary', maxLength: 4 }))
      .map(([at, gone, put]) => start.slice(0, at) + put + start.slice(at + gone));
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), mangled, fc.json()), (text) => {
        const decoded = decodeResultLine(text);
        if (decoded.kind === 'answered') {
          expect(JSON.parse(decoded.answer.content_json)).toEqual(decoded.answer.content);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe('the cost of a line that is no JSON', () => {
  test('is found where its brackets and quotes can be followed', () => {
    unreadable(line('[{"type":"text","text":"\u0001"}]'), 'a-1', 'not JSON', BILL);
    unreadable(line('[{"type":"text","text":"\\x"}]'), 'a-1', 'not JSON', BILL);
    unreadable(
      line('[nonsense]').replace('"stop_sequence":null', '"stop_sequence":'),
      'a-1',
      'not JSON',
      BILL,
    );
  });

  test('is found at the end of a line that cannot be followed', () => {
    const { usage } = BILL;
    expect(decodeResultLine(line('[{"type":"text","text":"a "quote"}]'))).toMatchObject({ bill: { usage } });
    expect(decodeResultLine(line('[[[['))).toMatchObject({ kind: 'unreadable', bill: { usage } });
  });

  test('is never taken from text of the model or its tools', () => {
    const said = '{"usage":{"input_tokens":7,"output_tokens":7}}';
    const spoofs = [
      `[{"type":"tool_use","input":${said}}]`,
      `[{"type":"text","text":${JSON.stringify(`"usage":${said}}}}`)}}]`,
      `[{"type":"x","result":{"message":${said}}}]`,
    ];
    for (const spoof of spoofs) {
      expect(answered(line(spoof)).usage).toEqual(BILL.usage);
      const whole = line(spoof);
      const cut = whole.slice(0, whole.indexOf(',"stop_reason"'));
      unreadable(cut, 'a-1', 'not JSON');
      unreadable(whole.replace('"model":', '"model"!'), 'a-1', 'not JSON', { ...BILL, model: null });
    }
  });

  test('is found in linear time, whatever the line holds', () => {
    const started = performance.now();
    for (const piece of ['"usage":{', '{"result":{"message":{"usage":', '\\"', '"usage":x', '}', '"id":"'])
      decodeResultLine(`{"custom_id":"a","result":{"message":{${piece.repeat(400_000)}`);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  test('is read from the end of a line that is too long for memory', () => {
    const whole = line(`[{"type":"text","text":"${'x'.repeat(10_000)}"}]`);
    const parts = { head: whole.slice(0, 1_000), tail: whole.slice(-1_000), byte_length: 10_200 };
    expect(decodeLongLine(parts)).toEqual({
      ...{ kind: 'unusable', custom_id: 'a-1', reason: '10200 bytes long' },
      bill: { ...BILL, stop_reason: null },
    });
    expect(billAtEnd('', parts.tail)).toMatchObject({ usage: BILL.usage, model: null });
    expect(decodeLongLine({ ...parts, tail: parts.tail.slice(0, -1) })).toEqual({
      ...{ kind: 'unreadable', custom_id: 'a-1', reason: '10200 bytes long', bill: null },
    });
    expect(decodeLongLine({ ...parts, head: 'x' })).toMatchObject({ kind: 'unreadable', custom_id: null });
  });
});

test('salvage reads an id only at the beginning of a line', () => {
  expect(salvageCustomId(' { "custom_id" : "a-1" , tr')).toBe('a-1');
  expect(salvageCustomId('\ufeff{"custom_id":"a-1"')).toBe('a-1');
  expect(salvageCustomId('{"x":"\\"custom_id\\":\\"b\\"","custom_id":"a"')).toBeNull();
  expect(salvageCustomId('{"custom_id":"not ours"}')).toBeNull();
  expect(salvageCustomId(`{"custom_id":"${'a'.repeat(65)}"`)).toBeNull();
});

/** Makes a writer of JSON with arbitrary but legal spacing and escapes. */
function spelling(choices: Iterable<number>): (value: unknown) => string {
  const iterator = choices[Symbol.iterator]() as Iterator<number, number>;
  const pick = (): number => iterator.next().value;
  const space = (): string => ['', '', '', ' ', '\t', '\r', '  '][pick()] ?? '';
  const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const spellString = (text: string): string =>
    pick() === 0
      ? `"${[...Array(text.length).keys()].map((i) => escapeUnit(text.charAt(i))).join('')}"`
      : JSON.stringify(text);
  const spell = (value: unknown): string => {
    if (typeof value === 'string') return spellString(value);
    if (Array.isArray(value))
      return `[${space()}${value.map(spell).join(`${space()},${space()}`)}${space()}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    const members = Object.entries(value).map(
      ([k, v]) => `${spellString(k)}${space()}:${space()}${spell(v)}`,
    );
    return `{${space()}${members.join(`${space()},`)}${space()}}`;
  };
  return spell;
}
