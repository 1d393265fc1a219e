import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import { checkPrefilled, prefilledArgs, withPrefilled } from '../../src/rules/prefill.ts';
import { acceptsForcedChoice, forcedToolChoice } from '../../src/rules/force.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { makeTool } from '../tools/tools.ts';
import { after, child, first, makeRules, maxCount } from './rules.ts';

const tools = ['a', 'b'];
const check = createArgumentValidator();

describe('arguments that rules fix', () => {
  const rules = makeRules(
    first('a', { x: 1, y: 1 }),
    { ...child('a', 'b'), child_arg_nodes: [{ name: 'b', args: { x: 2, z: 2 } }] },
    { ...child('a', 'b', 'a'), child_arg_nodes: [{ name: 'b', args: { x: 3 } }, { name: 'a' }] },
  );

  test('come from run_first at the start only', () => {
    expect(prefilledArgs(rules, NO_HISTORY, tools, 'a')).toEqual({ x: 1, y: 1 });
    expect(prefilledArgs(rules, after(['b']), tools, 'a')).toBeNull();
    expect(prefilledArgs(rules, NO_HISTORY, tools, 'b')).toBeNull();
  });

  test('come from child rules of the last tool, the later rule winning', () => {
    expect(prefilledArgs(rules, after(['a']), tools, 'b')).toEqual({ x: 3, z: 2 });
    expect(prefilledArgs(rules, after(['a', 'b']), tools, 'b')).toBeNull();
  });

  test('are none for a tool that may not be called', () => {
    const exhausted = makeRules(
      { ...child('a', 'b'), child_arg_nodes: [{ name: 'b', args: { x: 2 } }] },
      maxCount('b', 1),
    );
    expect(prefilledArgs(exhausted, after(['a']), tools, 'b')).not.toBeNull();
    expect(prefilledArgs(exhausted, after(['b', 'a']), tools, 'b')).toBeNull();
    expect(prefilledArgs(makeRules(first('zzz', { x: 1 })), NO_HISTORY, tools, 'zzz')).toBeNull();
    expect(prefilledArgs(makeRules(first('a')), NO_HISTORY, tools, 'a')).toBeNull();
    expect(prefilledArgs(makeRules(child('a', 'b')), after(['a']), tools, 'b')).toBeNull();
  });

  test('override the model’s, which stay unchanged in the conversation', () => {
    const tool = makeTool('b', { type: 'object', properties: { x: { type: 'number' } } });
    const sent = { x: 9, w: 9 };
    const prefilled = { x: 3 };
    expect(withPrefilled(tool, sent, prefilled, check)).toEqual({ ok: true, args: { x: 3, w: 9 } });
    expect(sent).toEqual({ x: 9, w: 9 });
    expect(withPrefilled(tool, sent, null, check)).toEqual({ ok: true, args: sent });
  });

  test('that do not fit the tool are named, all of them', () => {
    const tool = makeTool('b', { type: 'object', properties: { x: { type: 'number' } } });
    const prefilled = { x: 'three', k: 1 };
    expect(withPrefilled(tool, {}, prefilled, check)).toEqual({
      ok: false,
      message:
        "Invalid value for 'x': three does not match expected schema type 'number'.; Unknown argument 'k' for tool 'b'.",
    });
  });

  test.each<[string, Json, Json, string | null]>([
    ['a type', { type: 'integer' }, 1, null],
    ['another type', { type: 'integer' }, [1], 'integer'],
    ['one of two types', { type: ['string', 'null'] }, 1, 'string | null'],
    ['an enum', { enum: ['p', 'q'] }, 'r', 'enum ["p","q"]'],
    ['a constant', { const: 1 }, 2, 'const 1'],
    ['anyOf', { anyOf: [{ type: 'string' }, { type: 'integer' }] }, true, 'string | integer'],
    ['oneOf', { oneOf: [{ type: 'string' }] }, true, 'string'],
    ['a reference', { $ref: '#/$defs/small' }, 11, 'any'],
    ['a fitting reference', { $ref: '#/$defs/small' }, 9, null],
    ['an old reference', { $ref: '#/definitions/small' }, 11, 'any'],
    ['never', false, 1, 'false'],
    ['anything', {}, { deep: [1] }, null],
  ])('are judged by %s', (_what, schema, value, type) => {
    const small = { type: 'integer', maximum: 10 };
    const tool = makeTool('b', {
      type: 'object',
      properties: { x: schema },
      required: ['other'],
      $defs: { small },
      definitions: { small },
    });
    expect(checkPrefilled(tool, { x: value }, check)).toEqual(
      type === null
        ? []
        : [
            `Invalid value for 'x': ${JSON.stringify(value).replaceAll(/^"|"$/g, '')} does not match expected schema type '${type}'.`,
          ],
    );
  });

  test('of other names are accepted where the tool accepts any', () => {
    for (const additionalProperties of [true, { type: 'string' }]) {
      expect(
        checkPrefilled(makeTool('b', { type: 'object', additionalProperties }), { k: 1 }, check),
      ).toEqual([]);
    }
    expect(checkPrefilled(makeTool('b', { type: 'object' }), { constructor: 1 }, check)).toHaveLength(1);
  });
});

describe('forcing a call', () => {
  const facts = {
    allowed: ['a', 'b'],
    model_name: 'claude-haiku-4-5',
    parallel_tool_calls: true,
    extra: {},
  };

  test('names a single tool, and any of several', () => {
    expect(forcedToolChoice(facts)).toEqual({ type: 'any' });
    expect(forcedToolChoice({ ...facts, allowed: ['b'] })).toEqual({ type: 'tool', name: 'b' });
    expect(forcedToolChoice({ ...facts, allowed: ['b'], parallel_tool_calls: false })).toEqual({
      type: 'tool',
      name: 'b',
      disable_parallel_tool_use: true,
    });
  });

  test('is left out where nothing is allowed, or the model refuses it', () => {
    expect(forcedToolChoice({ ...facts, allowed: [] })).toBeNull();
    expect(forcedToolChoice({ ...facts, model_name: 'claude-opus-5-5' })).toBeNull();
    expect(forcedToolChoice({ ...facts, extra: { thinking: { type: 'enabled' } } })).toBeNull();
  });

  test('is tried only on models that are known to accept it', () => {
    const taking = ['claude-haiku-4-5-20251001', 'claude-opus-5', 'claude-sonnet-4-6', 'claude-haiku-5-5'];
    const refusing = ['claude-opus-5-5', 'claude-sonnet-5-5', 'claude-fable-5-1', 'claude-mythos-5-2', 'x-1'];
    expect(taking.every((model) => acceptsForcedChoice(model, { thinking: { type: 'adaptive' } }))).toBe(
      true,
    );
    expect(refusing.some((model) => acceptsForcedChoice(model, {}))).toBe(false);
  });
});
