import { describe, expect, test } from 'vitest';
import { SCRIPTS } from '../src/scripts/registry.ts';
import { parseDirective } from '../src/scripts/directive.ts';
import { answer, callsOf, converse, params, textIn } from './support/converse.ts';

const sim = (directive: string, more: object = {}): ReturnType<typeof params> =>
  params(`⟦sim:${directive}⟧ go`, more);

describe('every script', () => {
  const ENDLESS = new Set(['infiniteTools']);
  const NOT_ECHOED = new Set(['blankTexts', 'errored', 'duplicateToolUse', 'mixedServerClientTools']);
  test.each([...SCRIPTS.keys()].filter((name) => !NOT_ECHOED.has(name)))(
    '%s gives answers that a faithful client can send back until the end',
    (name) => {
      const answers = converse(sim(name), 12);
      const last = answers.at(-1);
      if (ENDLESS.has(name)) expect(last?.stop_reason).toBe('tool_use');
      else expect(['tool_use', 'pause_turn']).not.toContain(last?.stop_reason);
      expect(converse(sim(name), 12)).toEqual(answers);
    },
  );
});

describe('directives', () => {
  test('are found in the metadata, else in the latest message with a directive', () => {
    const messages = [
      { role: 'user', content: '⟦sim:fixed?text=old⟧' },
      { role: 'assistant', content: 'old' },
      { role: 'user', content: 'now ⟦sim:fixed?text=new%20one&x=1⟧ please' },
    ];
    expect(textIn(answer(params('', { messages })))).toBe('new one');
    expect(textIn(answer(params('', { messages, metadata: { user_id: 'sim:fixed?text=meta' } })))).toBe(
      'meta',
    );
  });

  test('keep their arguments apart', () => {
    expect(parseDirective('toolLoop?n=2&args={"a":"b=c"}')).toEqual({
      script: 'toolLoop',
      args: { n: '2', args: '{"a":"b=c"}' },
    });
    expect(parseDirective('echo')).toEqual({ script: 'echo', args: {} });
  });

  test('with an unknown name are answered with the known names', () => {
    expect(() => answer(sim('nonsense'))).toThrow(/there is no script "nonsense"; there are obey, /);
  });
});

describe('tool scripts', () => {
  test('toolLoop calls n times', () => {
    const answers = converse(sim('toolLoop?tool=add&n=4'));
    expect(answers.map((answered) => callsOf(answered).length)).toEqual([1, 1, 1, 1, 0]);
    expect(callsOf(answers[0])[0]).toMatchObject({
      name: 'add',
      input: { a: expect.any(Number), b: expect.any(Number) },
    });
    expect(callsOf(converse(sim('toolLoop?n=1&args={"where":"x"}'))[0])[0]).toMatchObject({
      input: { where: 'x' },
    });
  });

  test('parallel calls k tools in one turn', () => {
    const [first] = converse(sim('parallel?k=5'));
    expect(callsOf(first).map(({ name }) => name)).toEqual(['look', 'add', 'look', 'add', 'look']);
    expect(new Set(callsOf(first).map(({ id }) => id)).size).toBe(5);
  });

  test('sequence follows its steps', () => {
    const steps = JSON.stringify([
      { tool: 'look', args: { where: 'a' } },
      [{ tool: 'look' }, { tool: 'add' }],
      { text: 'the end' },
    ]);
    const answers = converse(sim(`sequence?steps=${encodeURIComponent(steps)}`));
    expect(answers.map((answered) => callsOf(answered).length)).toEqual([1, 2, 0]);
    expect(textIn(answers[2])).toBe('the end');
  });

  test('badArgs breaks the schema, then repairs the call', () => {
    const answers = converse(sim('badArgs?tool=add'));
    expect(callsOf(answers[0])[0]?.['input']).toEqual({ a: { not: 'what was asked for' } });
    expect(callsOf(answers[1])[0]?.['input']).toEqual({ a: expect.any(Number), b: expect.any(Number) });
    expect(answers).toHaveLength(3);
  });

  test('unknownTool, hugeArgs and duplicateToolUse do what their names say', () => {
    expect(callsOf(answer(sim('unknownTool')))[0]).toMatchObject({ name: 'summon_daemon' });
    expect(JSON.stringify(callsOf(answer(sim('hugeArgs?bytes=5000')))[0]?.['input']).length).toBeGreaterThan(
      5000,
    );
    const ids = callsOf(answer(sim('duplicateToolUse'))).map(({ id }) => id);
    expect(ids[0]).toBe(ids[1]);
    const distinct = callsOf(answer(sim('duplicateToolUse?ids=distinct'))).map(({ id }) => id);
    expect(distinct[0]).not.toBe(distinct[1]);
  });

  test('blankTexts puts blank texts around its call and its text', () => {
    const texts = (directive: string, more: object) =>
      answer(sim(directive, more)).content.map(({ type, text }) => (type === 'text' ? text : type));
    expect(texts('blankTexts', {})).toEqual(['', 'tool_use', '\n']);
    expect(texts('blankTexts', { tools: [] })).toEqual([' \n', 'Done.', '']);
  });

  test('infiniteTools may repeat itself exactly', () => {
    const inputs = converse(sim('infiniteTools?same=1'), 4).map(
      (answered) => callsOf(answered)[0]?.['input'],
    );
    expect(new Set(inputs.map((input) => JSON.stringify(input))).size).toBe(1);
    const varied = converse(sim('infiniteTools'), 4).map((answered) => callsOf(answered)[0]?.['input']);
    expect(new Set(varied.map((input) => JSON.stringify(input))).size).toBe(4);
  });

  test('reactsToIsError retries until a result is no error', () => {
    const answers = converse(sim('reactsToIsError'), 9, (_call, turn) => ({
      content: 'x',
      is_error: turn < 3,
    }));
    expect(answers).toHaveLength(4);
    expect(textIn(answers[3])).toBe('The call succeeded.');
    expect(converse(sim('reactsToIsError'), 9, () => ({ content: 'x', is_error: true }))).toHaveLength(6);
  });
});

describe('stop reasons', () => {
  test.each([
    ['maxTokensText', 'max_tokens'],
    ['maxTokensMidToolUse', 'max_tokens'],
    ['refusal?category=cyber', 'refusal'],
    ['pauseTurn', 'pause_turn'],
    ['contextExceeded', 'model_context_window_exceeded'],
    ['emptyEndTurn', 'end_turn'],
    ['stopSequence', 'stop_sequence'],
    ['unknownStopReason', 'quantum_decoherence'],
    ['mixedServerClientTools', 'tool_use'],
  ])('%s stops with %s', (directive, reason) => {
    expect(answer(sim(directive)).stop_reason).toBe(reason);
  });

  test('carry their details', () => {
    expect(answer(sim('refusal?category=cyber'))).toMatchObject({
      content: [],
      stop_details: { type: 'refusal', category: 'cyber' },
    });
    expect(answer(sim('refusal?mid=1')).content).toHaveLength(1);
    expect(answer(sim('stopSequence', { stop_sequences: ['HALT'] })).stop_sequence).toBe('HALT');
    expect(answer(sim('maxTokensText')).usage['output_tokens']).toBe(1000);
  });

  test('errored answers with the given error', () => {
    expect(() => answer(sim('errored?type=overloaded_error&message=Full'))).toThrow('overloaded_error: Full');
  });
});

describe('content', () => {
  test('unicode survives JSON, lone surrogate and NUL included', () => {
    const text = textIn(answer(sim('unicode')));
    for (const odd of ['\u2028', '😀', '\ud83d end', '\u0000', '\ufeff']) expect(text).toContain(odd);
  });

  test('unknown blocks arrive unchanged', () => {
    expect(answer(sim('unknownBlockType')).content[1]).toMatchObject({ type: 'hologram', payload: { z: 1 } });
  });

  test('hugeText and echo', () => {
    expect(textIn(answer(sim('hugeText?bytes=12345')))).toHaveLength(12_345);
    expect(textIn(answer(sim('echo')))).toBe('⟦sim:echo⟧ go');
  });

  test('a pausing search gives its results, or leaves them open', () => {
    const paired = answer(sim('pauseTurn'));
    expect(paired.content.at(-1)).toMatchObject({
      type: 'web_search_tool_result',
      tool_use_id: paired.content.at(-2)?.['id'],
    });
    expect(paired.usage['server_tool_use']).toMatchObject({ web_search_requests: 1 });
    expect(answer(sim('pauseTurn?unpaired=1')).content.at(-1)?.type).toBe('server_tool_use');
    expect(converse(sim('pauseTurn?k=3&unpaired=1')).map(({ stop_reason }) => stop_reason)).toEqual([
      'pause_turn',
      'pause_turn',
      'pause_turn',
      'end_turn',
    ]);
  });

  test('a transcript with results out of order is refused', () => {
    const first = answer(sim('parallel?k=2'));
    const results = callsOf(first).map((call) => ({
      type: 'tool_result',
      tool_use_id: call['id'] ?? '',
      content: 'ok',
    }));
    const messages = [
      { role: 'user', content: '⟦sim:assertTranscript⟧' },
      { role: 'assistant', content: first.content },
    ];
    const swapped = [...messages, { role: 'user', content: results.toReversed() }];
    expect(() => answer(params('', { messages: swapped }))).toThrow(/not in the order of the calls/);
    expect(
      answer(params('', { messages: [...messages, { role: 'user', content: results }] })).stop_reason,
    ).toBe('end_turn');
  });
});

describe('thinking blocks', () => {
  const loop = (
    change: (content: ReturnType<typeof answer>['content']) => object[],
    model = 'claude-opus-5-5',
  ): (() => unknown) => {
    const asked = sim('thinking?display=summarized&n=2', { model });
    const first = answer(asked);
    const results = callsOf(first).map((call) => ({
      type: 'tool_result',
      tool_use_id: call['id'] ?? '',
      content: 'ok',
    }));
    const messages = [
      ...asked.messages,
      { role: 'assistant', content: change(first.content) },
      { role: 'user', content: results },
    ];
    return () => answer({ ...asked, messages: messages as never });
  };

  test('pass when unchanged, whatever the order of their members and the cache marks around them', () => {
    expect(loop((content) => content)).not.toThrow();
    expect(
      loop(([thought, ...rest]) => [Object.fromEntries(Object.entries(thought ?? {}).reverse()), ...rest]),
    ).not.toThrow();
    expect(
      loop((content) =>
        content.map((block) =>
          block.type === 'tool_use' ? { ...block, cache_control: { type: 'ephemeral' } } : block,
        ),
      ),
    ).not.toThrow();
  });

  test('are refused when edited', () => {
    expect(loop(([thought, ...rest]) => [{ ...thought, thinking: 'Something else.' }, ...rest])).toThrow(
      /messages\.1\.content\.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified/,
    );
    expect(loop(([thought, ...rest]) => [{ ...thought, signature: 'x' }, ...rest])).toThrow(
      /cannot be modified/,
    );
  });

  test('are bound to the conversation on the newest models only', () => {
    const moved = ([thought, ...rest]: object[]): object[] => [
      { type: 'text', text: 'An insertion.' },
      thought ?? {},
      ...rest,
    ];
    expect(loop(moved)).toThrow(/bound to a different conversation/);
    expect(loop(moved, 'claude-haiku-5-5')).toThrow(/bound to a different conversation/);
    expect(loop(moved, 'claude-opus-5')).not.toThrow();
  });

  describe('of a conversation', () => {
    const tools = ['look', 'weigh'].map((name) => ({ name, input_schema: { type: 'object' } }));
    const asked = sim('thinking?n=3', { model: 'claude-opus-5-5', system: 'Be kind.', tools });
    const replies = converse(asked, 3);
    const answers = replies.map(({ content }) => content);
    /** Continues the conversation after the answers. */
    const goOn = (contents: readonly object[][], rest: object = {}): (() => unknown) => {
      const messages = contents.flatMap((content, at) => [
        { role: 'assistant', content },
        {
          role: 'user',
          content: callsOf(replies[at]).map((call) => ({
            type: 'tool_result',
            tool_use_id: call['id'],
            content: 'ok',
          })),
        },
      ]);
      return () => answer({ ...asked, messages: [...asked.messages, ...messages], ...rest } as never);
    };
    const without = ([, ...rest]: readonly object[]): object[] => rest;
    const [first = [], second = [], third = []] = answers;

    test('are valid while the system prompt and the tools are unchanged', () => {
      expect(goOn(answers)).not.toThrow();
      const marked = [{ type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral' } }];
      expect(goOn(answers, { system: marked, tools: tools.toReversed(), max_tokens: 99 })).not.toThrow();
      expect(goOn(answers, { system: 'Be brief.' })).toThrow(
        /messages\.1\.content\.0: .*different conversation/,
      );
      expect(goOn(answers, { tools: tools.slice(0, 1) })).toThrow(/different conversation/);
      expect(goOn(answers.map(without), { system: 'Be brief.' })).not.toThrow();
    });

    test('may be left out from the oldest on, or all, but not in between', () => {
      expect(goOn([without(first), second, third])).not.toThrow();
      expect(goOn([without(first), without(second), third])).not.toThrow();
      expect(goOn([first, second, without(third)])).not.toThrow();
      expect(goOn([first, without(second), third])).toThrow(
        /messages\.5\.content\.0: .*different conversation/,
      );
    });
  });

  test('may be redacted, or stand between two calls', () => {
    const answers = converse(sim('thinking?display=redacted'));
    expect(answers[0]?.content[0]).toMatchObject({ type: 'redacted_thinking', data: expect.any(String) });
    const between = converse(sim('textBetweenToolsAsThinking', { model: 'claude-sonnet-5-5' }));
    expect(between[0]?.content.map(({ type }) => type)).toEqual([
      'thinking',
      'tool_use',
      'thinking',
      'tool_use',
    ]);
    expect(between).toHaveLength(3);
  });
});

describe('webSearch', () => {
  const tools = (max_uses?: number): object => ({
    tools: [{ type: 'web_search_20260318', name: 'web_search', max_uses }],
  });

  test('searches with an offered tool, at most max_uses times an answer, and pauses', () => {
    const answers = converse(sim('webSearch?n=3&pauses=1', tools(2)));
    expect(answers.map(({ stop_reason }) => stop_reason)).toEqual(['pause_turn', 'end_turn']);
    const searches = answers.map(
      ({ content }) => content.filter(({ type }) => type === 'server_tool_use').length,
    );
    expect(searches).toEqual([2, 2]);
  });

  test('says so without an offered tool', () => {
    expect(textIn(answer(sim('webSearch')))).toBe('No web search is offered.');
  });
});
