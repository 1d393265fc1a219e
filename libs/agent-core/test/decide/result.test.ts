import { describe, expect, test } from 'vitest';
import { decideResults } from '../../src/decide/after-tools.ts';
import type { SettledCall } from '../../src/decide/step-calls.ts';
import { toolPolicyOf } from '../../src/decide/tool-policy.ts';
import { RETRY_POLICY_DEFAULT, type RunFacts } from '../../src/decide/decision.ts';
import { planCalls } from '../../src/decide/plan-calls.ts';
import { NO_TRAIL } from '../../src/decide/trail.ts';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import {
  checkResultSchema,
  createResultCheck,
  FINISH_TOOL,
  withTypedFinish,
} from '../../src/tools/finish.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { required } from '../rules/rules.ts';
import { makeTool } from '../tools/tools.ts';
import { decideLine, keyOf, makeAnswer, makeRun, text } from './facts.ts';

const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
/** Lists of lists. */
const TREE = { type: 'array', items: { $ref: '#' } };
const look = makeTool('look', { type: 'object' });
const definition = (
  rest: { result_format?: { schema: JsonObject } | null; finish?: boolean; rules?: JsonObject[] } = {},
) => ({
  model: 'anthropic/claude-haiku-4-5',
  model_settings: { max_output_tokens: 10, parallel_tool_calls: true, extra: {} },
  tools: rest.finish === false ? [look] : [look, FINISH_TOOL],
  tool_rules: rest.rules ?? [],
  result_format: rest.result_format ?? null,
  compaction: { mode: 'none' as const },
});
const typed = toolPolicyOf(definition({ result_format: { schema: SCHEMA } }));
const spoken = toolPolicyOf(definition({ result_format: { schema: SCHEMA }, finish: false }));
const free = toolPolicyOf(definition());

function say(toolPolicy: typeof typed, said: string, rest: Partial<RunFacts> = {}) {
  const run = makeRun(rest);
  const outcome = { kind: 'answered', answer: makeAnswer('end_turn', [text(said)]) } as const;
  const decision = decideLine(run, keyOf(run), outcome, RETRY_POLICY_DEFAULT, toolPolicy);
  if (decision.kind === 'refuse') throw new Error('refused');
  return decision;
}

function callFinish(toolPolicy: typeof typed, input: JsonObject, rest: Partial<RunFacts> = {}) {
  const uses = [
    { type: 'tool_use', id: '1', name: 'look', input: {} },
    { type: 'tool_use', id: '2', name: 'finish', input },
  ] as const;
  const settled = planCalls(uses, toolPolicy, NO_HISTORY, createArgumentValidator()).map(
    (planned): SettledCall => ({
      planned,
      outcome: { ok: planned.rejection === null, result: planned.rejection ?? 'ok' },
    }),
  );
  return decideResults(makeRun({ state: 'acting', ...rest }), settled, toolPolicy).run;
}

describe('a whole number too long to be kept to its last digit', () => {
  const ID = '12345678901234567891';
  const plan = (input: JsonObject) =>
    planCalls(
      [{ type: 'tool_use', id: '1', name: 'finish', input }],
      free,
      NO_HISTORY,
      createArgumentValidator(),
    )[0]!;

  test('is never altered silently: the model is asked to write it as a string', () => {
    const { run, messages } = say(spoken, `{"n": ${ID}}`);
    expect(run).toMatchObject({ state: 'ready' });
    expect(messages[1]?.content_json).toContain('near 12345678901234567000');
    const { rejection } = plan({ result: { list: [{ id: JSON.parse(`-${ID}`) as number }] } });
    expect(rejection).toContain('near -12345678901234567000');
    expect(rejection).toContain('as a string');
  });

  test('is not altered either where it is the whole result', () => {
    const bare = toolPolicyOf(definition({ result_format: { schema: { type: 'integer' } }, finish: false }));
    const { run, messages } = say(bare, ID);
    expect(run).toMatchObject({ state: 'ready' });
    expect(messages[1]?.content_json).toContain('near 12345678901234567000');
    expect(say(bare, '-12').run).toMatchObject({ state: 'completed', result: -12 });
  });

  test('is no quantity where an answer in words writes it out', () => {
    expect(say(spoken, '{"n": 1234567890123456789012345}').run).toMatchObject({ state: 'ready' });
    expect(say(spoken, '{"n": 1e24}').run).toMatchObject({ state: 'completed', result: { n: 1e24 } });
  });

  test('is any beyond the exact range of numbers, except quantities', () => {
    for (const n of [2 ** 53 - 1, -(2 ** 53 - 1), 0.1, 6.02e23, -1.5e300])
      expect(plan({ result: n }).rejection).toBeNull();
    for (const text of ['9007199254740993', '1e400', '-1e400'])
      expect(plan({ result: [JSON.parse(text) as number] }).rejection).not.toBeNull();
    expect(say(spoken, `{"n": 9007199254740991, "id": "${ID}"}`).run).toMatchObject({ state: 'completed' });
  });
});

describe('an answer in words that nests too deep to store', () => {
  const bare = toolPolicyOf(definition({ result_format: { schema: TREE }, finish: false }));
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

  test.each([129, 3_000, 7_000, 1_000_000])('%i deep, is no result: the model is asked again', (depth) => {
    const { run, messages } = say(bare, nested(depth));
    expect(run).toMatchObject({ state: 'ready' });
    expect(messages[1]?.content_json).toContain('it nests deeper than 128 levels');
  });

  test('is accepted up to that depth', () => {
    expect(say(bare, nested(128)).run).toMatchObject({ state: 'completed' });
  });
});

describe('the tool finish', () => {
  test('ends the run with its argument', () => {
    for (const result of [null, 'text', { n: 1 }, [1]]) {
      expect(callFinish(free, { result })).toEqual({
        state: 'completed',
        stop_reason: 'tool_rule',
        error: null,
        result,
      });
    }
    expect(say(free, 'Done.').run).toMatchObject({ stop_reason: 'end_turn', error: null });
  });

  test('takes a result of the schema that the run owes, and tells the model its errors', () => {
    expect(typed.tools[1]?.input_schema).toMatchObject({
      properties: { result: SCHEMA },
      required: ['result'],
    });
    expect(callFinish(typed, { result: { n: 1 } })).toMatchObject({ state: 'completed', result: { n: 1 } });
    expect(callFinish(typed, { result: { n: 'one' } })).toMatchObject({ state: 'ready' });
  });

  test('is asked for where a run that owes a result ends in words, and missed on the last step', () => {
    expect(say(typed, 'Done.').messages[1]?.content_json).toContain('You must call finish');
    expect(say(typed, 'Done.', { step_number: 10 }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'max_steps',
    });
    expect(callFinish(typed, {}, { step_number: 10 })).toMatchObject({
      state: 'failed',
      stop_reason: 'max_steps',
      error: {
        message:
          "The run ended without the result that it owes: step limit reached. Its last call to hand it over was refused: Invalid arguments for tool 'finish': missing required property 'result'.",
      },
    });
  });

  describe('where another tool is required', () => {
    const careful = toolPolicyOf(
      definition({ result_format: { schema: SCHEMA }, rules: [required('look')] }),
    );
    const finish = { type: 'tool_use', id: '1', name: 'finish', input: { result: { n: 7 } } } as const;
    const look = (input: Json) => ({ type: 'tool_use', id: '2', name: 'look', input }) as const;
    const plan = (uses: Parameters<typeof planCalls>[0], calls: readonly string[] = []) =>
      planCalls(uses, careful, { calls, last_result: null }, createArgumentValidator()).map(
        ({ kind, rejection }) => rejection ?? kind,
      );

    test('is refused before that tool is called', () => {
      const refused = 'The result is not taken yet: call look first, then finish again.';
      expect(plan([finish])).toEqual([refused]);
      expect(plan([look('no object'), finish])[1]).toBe(refused);
      expect(plan([finish], ['look'])).toEqual(['finish']);
      for (const uses of [
        [look({}), finish],
        [finish, look({})],
      ])
        expect(plan(uses).toSorted()).toEqual(['finish', 'module']);
      expect(plan([look({})])).toEqual(['module']);
    });

    test('is asked for with a call, though it was called beside a call that the caller denied', () => {
      const trail = { ...NO_TRAIL, history: { calls: ['finish', 'look'], last_result: null } };
      const { messages, run } = say(careful, '{"n":7}', { trail });
      expect(messages[1]?.content_json).toContain(
        'Your result has not been handed over: call finish with it.',
      );
      expect(run).toMatchObject({ state: 'ready', trail: { reasks: 1 } });
    });
  });

  test.each<[string, JsonObject, Json, Json]>([
    ['definitions', { $ref: '#/$defs/n', $defs: { n: { type: 'integer' } } }, 1, 'x'],
    ['older definitions', { $ref: '#/definitions/n', definitions: { n: { type: 'integer' } } }, 1, 'x'],
    ['itself', { ...TREE, $id: 'https://example.com/tree' }, [[[]], []], [[[1]]]],
    [
      'its own properties',
      { properties: { a: { type: 'integer' }, b: { $ref: '#/properties/a' } } },
      { b: 1 },
      { b: 'x' },
    ],
    ['a property of that name', { properties: { $ref: { type: 'integer' } } }, { $ref: 1 }, { $ref: 'x' }],
  ])('takes a result by a schema that refers to %s', (_what, schema, right, wrong) => {
    const [tool] = withTypedFinish([FINISH_TOOL, look], schema, 'nested');
    const validate = createArgumentValidator();
    expect(validate(tool!, { result: right })).toMatchObject({ ok: true });
    expect(validate(tool!, { result: wrong })).toMatchObject({ ok: false });
    expect(JSON.stringify(tool)).not.toContain('$id');
  });

  test('takes a result by a schema whose definitions stand at the top, for the provider', () => {
    const schema = {
      $id: 'x',
      properties: { a: { $ref: '#/$defs/d' }, b: { $ref: '#/definitions/e' } },
      $defs: { d: { type: 'integer' } },
      definitions: { e: { type: 'null' } },
    };
    const [tool] = withTypedFinish([FINISH_TOOL, look], schema, 'hoisted');
    const { $id: _id, properties, ...definitions } = schema;
    expect(tool?.input_schema).toMatchObject({ properties: { result: { properties } }, ...definitions });
    const validate = createArgumentValidator();
    expect(validate(tool!, { result: { a: 1, b: null } })).toMatchObject({ ok: true });
    expect(validate(tool!, { result: { a: 'x' } })).toMatchObject({ ok: false });
  });
});

describe('an answer that is the result', () => {
  test('is searched once in an answer whose code fence is not closed', () => {
    const answer = `\`\`\`json${'\n'.repeat(100_000)}{"n":1}`;
    expect(cpuMsOf(() => say(spoken, answer))).toBeLessThan(1000);
  });

  test.each([
    '{"n":1}',
    ' {"n": 1}\n',
    '```json \n\n{"n":1}```',
    '```json\n{"n":1}\n```',
    '```\n{"n":1}\n```',
  ])('is taken: %j', (said) => {
    expect(say(spoken, said).run).toEqual({
      state: 'completed',
      stop_reason: 'end_turn',
      error: null,
      result: { n: 1 },
    });
  });

  test.each([
    ['Here it is: {"n":1}', 'it is not JSON alone'],
    ['{"n":"one"}', '/n must be integer'],
    ['[]', 'must be object'],
  ])('and does not fit is asked for again: %j', (said, problem) => {
    const { messages, run } = say(spoken, said);
    expect(messages[1]?.content_json).toContain(`is not the JSON that was asked for: ${problem}.`);
    expect(run).toMatchObject({ state: 'ready', trail: { reasks: 1 } });
  });

  test('and has half a surrogate pair for a key is asked for again in text that the provider accepts', () => {
    const strict = toolPolicyOf(
      definition({ result_format: { schema: { additionalProperties: false } }, finish: false }),
    );
    const [, asked] = say(strict, '{"\\ud83d":1}').messages;
    expect(asked?.content_json).toContain('\ufffd');
    expect(asked?.content_json).not.toContain('\\ud');
  });

  test('and never fits fails the run, with the error', () => {
    expect(say(spoken, 'no', { trail: { ...NO_TRAIL, reasks: 3 } }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'loop_detected',
      error: { message: expect.stringContaining('it is not JSON alone') as string },
    });
    expect(say(spoken, 'no', { step_number: 10 }).run).toMatchObject({
      state: 'failed',
      stop_reason: 'max_steps',
    });
  });

  test('is described in the static prompt; a finish tool describes it itself', () => {
    expect(spoken.result?.instructions).toContain(JSON.stringify(SCHEMA));
    expect([typed.result?.instructions, free.result]).toEqual(['', null]);
  });
});

test.each([typed, spoken])(
  'a run that owes a result and is paused on its last step has failed',
  (toolPolicy) => {
    const run = makeRun({ step_number: 10 });
    const outcome = { kind: 'answered', answer: makeAnswer('pause_turn', [text('so')]) } as const;
    expect(decideLine(run, keyOf(run), outcome, RETRY_POLICY_DEFAULT, toolPolicy)).toMatchObject({
      run: {
        state: 'failed',
        stop_reason: 'max_steps',
        error: { message: expect.stringContaining('result') as string },
      },
    });
  },
);

describe('the schema of a result', () => {
  const nested = (depth: number): JsonObject => (depth === 0 ? {} : { not: nested(depth - 1) });

  test('is checked before anything is paid', () => {
    expect(checkResultSchema({ type: 'array' })).toBeNull();
    expect(checkResultSchema('x')).toBe('The schema of a result must be an object.');
    expect(checkResultSchema({ type: 'nothing' })).toMatch(/^The schema is not usable: /);
    expect(checkResultSchema({ $ref: '#/properties/none' })).toMatch(/^The schema is not usable: /);
    expect(checkResultSchema(nested(62))).toBeNull();
    expect(checkResultSchema(nested(63))).toMatch(/nest at most/);
  });

  test('that is unusable, or too much work, is reported for every result', () => {
    expect(createResultCheck({ type: 'nothing' })(1)).toMatch(/^the schema is not usable/);
    const endless = {
      $ref: '#/$defs/a',
      $defs: { a: { anyOf: [{ $ref: '#/$defs/a2' }] }, a2: { type: 'array', items: { $ref: '#/$defs/a' } } },
    };
    expect(createResultCheck(endless)(Array.from({ length: 30_000 }, () => []))).toMatch(
      /too many references/,
    );
  });
});
