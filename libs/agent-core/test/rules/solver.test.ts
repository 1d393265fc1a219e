import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import {
  allowedTools,
  checkToolRules,
  continues,
  isTerminal,
  mustForce,
  requiresApproval,
  uncalledRequired,
} from '../../src/rules/solver.ts';
import {
  after,
  approval,
  child,
  conditional,
  first,
  goesOn,
  makeRules,
  maxCount,
  parent,
  required,
  terminal,
} from './rules.ts';

const tools = ['a', 'b', 'c', 'd'];

function allowed(rules: readonly ToolRule[], calls: readonly string[], result: string | null = 'ok') {
  return allowedTools(rules, after(calls, result), tools);
}

describe('the callable tools', () => {
  test('without rules, all available tools', () => {
    expect(allowed([], [])).toEqual(tools);
    expect(allowed([], ['a', 'zzz'])).toEqual(tools);
  });

  test('run_first names the tools of the start and restricts nothing after the first call', () => {
    const rules = makeRules(first('c'), first('a'));
    expect(allowed(rules, [])).toEqual(['c', 'a']);
    expect(allowed(rules, ['a'])).toEqual(tools);
    expect(allowed(makeRules(first('a'), child('a', 'b'), maxCount('a', 1)), [])).toEqual(['a']);
  });

  test('run_first is cut to the tools that are attached', () => {
    expect(allowed(makeRules(first('zzz'), first('a')), [])).toEqual(['a']);
    expect(allowed(makeRules(first('zzz')), [])).toEqual([]);
  });

  test('a child rule binds directly after its tool and at no other time', () => {
    const rules = makeRules(child('a', 'b', 'c'));
    expect(allowed(rules, [])).toEqual(tools);
    expect(allowed(rules, ['a'])).toEqual(['b', 'c']);
    expect(allowed(rules, ['a', 'b'])).toEqual(tools);
  });

  test('children of a parent rule may be called only directly after it, and only they', () => {
    const rules = makeRules(parent('a', 'b'));
    expect(allowed(rules, [])).toEqual(['a', 'c', 'd']);
    expect(allowed(rules, ['a'])).toEqual(['b']);
    expect(allowed(rules, ['a', 'b'])).toEqual(['a', 'c', 'd']);
  });

  test('two child rules of a tool intersect', () => {
    expect(allowed(makeRules(child('a', 'b', 'c'), child('a', 'c', 'd')), ['a'])).toEqual(['c']);
  });

  test('a limit that uses up the only child leaves nothing', () => {
    const rules = makeRules(child('a', 'b'), maxCount('b', 1));
    expect(allowed(rules, ['a'])).toEqual(['b']);
    expect(allowed(rules, ['a', 'b', 'a'])).toEqual([]);
  });

  test('rules that contradict each other leave nothing', () => {
    expect(allowed(makeRules(child('a', 'b'), parent('c', 'b')), ['a'])).toEqual([]);
    expect(allowed(makeRules(child('a', 'b'), child('a', 'c')), ['a'])).toEqual([]);
  });

  test('unknown tools in rules are never offered and do no harm', () => {
    expect(allowed(makeRules(child('a', 'zzz', 'b'), parent('yyy', 'xxx')), ['a'])).toEqual(['b']);
    expect(allowed(makeRules(child('zzz', 'b'), maxCount('zzz', 1)), ['a'])).toEqual(tools);
    expect(allowed(makeRules(child('a', 'zzz')), ['a'])).toEqual([]);
  });

  test('max_count_per_step counts all calls of the run, each once', () => {
    const rules = makeRules(maxCount('a', 2));
    expect(allowed(rules, ['a'])).toEqual(tools);
    expect(allowed(rules, ['a', 'b', 'a'])).toEqual(['b', 'c', 'd']);
  });

  test('callable tools come in the order of the tools, not of the rules', () => {
    expect(allowed(makeRules(child('a', 'd', 'c', 'b')), ['a'])).toEqual(['b', 'c', 'd']);
    expect(allowedTools(makeRules(child('a', 'b', 'd')), after(['a']), ['d', 'c', 'b', 'a'])).toEqual([
      'd',
      'b',
    ]);
  });

  test('rules about the flow restrict nothing', () => {
    expect(allowed(makeRules(terminal('a'), goesOn('a'), required('b'), approval('c')), ['a'])).toEqual(
      tools,
    );
  });
});

describe('a conditional rule', () => {
  const mapping = { true: 'b', '1': 'c', yes: 'd' };

  test.each<[string, string | null, readonly string[]]>([
    ['text', 'yes', ['d']],
    ['text that is a JSON string', '"yes"', ['d']],
    ['boolean', 'true', ['b']],
    ['boolean as Python writes it', 'True', ['b']],
    ['number', '1', ['c']],
    ['number in another form', '1.0', ['c']],
    ['number with space around', ' 1 ', ['c']],
    ["Letta's package", '{"status":"OK","message":"yes","time":"now"}', ['d']],
    ["Letta's package of a boolean", '{"status":"OK","message":true}', ['b']],
    ["Letta's package of a number", '{"message":1}', ['c']],
    ['nothing that matches', 'no', tools],
    ['a package with nothing as message', '{"message":null}', tools],
    ['a package without message', '{"status":"OK"}', tools],
    ['a package whose message is an object', '{"message":{"a":1}}', tools],
    ['JSON that is no object', '[1]', tools],
    ['JSON null', 'null', tools],
    ['no result at all', null, tools],
    ['false', 'false', tools],
    ['a number that is another', '2', tools],
    ['a number that only begins alike', '1x', tools],
  ])('follows %s', (_what, result, expected) => {
    expect(allowed(makeRules(conditional('a', mapping)), ['a'], result)).toEqual(expected);
  });

  test('follows the exact text of a number that JavaScript cannot hold', () => {
    const rules = makeRules(conditional('a', { '12345678901234567891': 'b', '12345678901234567890': 'c' }));
    expect(allowed(rules, ['a'], '12345678901234567890')).toEqual(['c']);
    expect(allowed(makeRules(conditional('a', { null: 'b' })), ['a'], '1e400')).toEqual(tools);
  });

  test('treats a result that nests too deep to store as plain text', () => {
    const nested = (depth: number) => `{"message":${'['.repeat(depth)}${']'.repeat(depth)}}`;
    const [deep, deeper] = [nested(128), nested(20_000)];
    const rules = makeRules(conditional('a', { [deep]: 'b', [deeper]: 'c' }));
    expect(allowed(rules, ['a'], deep)).toEqual(['b']);
    expect(allowed(rules, ['a'], deeper)).toEqual(['c']);
    expect(allowed(rules, ['a'], nested(20_001))).toEqual(tools);
  });

  test('binds directly after its tool only', () => {
    const rules = makeRules(conditional('a', { x: 'b' }, { require_output_mapping: true }));
    expect(allowed(rules, [])).toEqual(tools);
    expect(allowed(rules, ['a', 'b'], 'x')).toEqual(tools);
  });

  test('without a match takes its default child, or nothing where it is strict', () => {
    expect(allowed(makeRules(conditional('a', { x: 'b' }, { default_child: 'c' })), ['a'], 'y')).toEqual([
      'c',
    ]);
    const strict = { require_output_mapping: true, default_child: 'c' };
    expect(allowed(makeRules(conditional('a', { x: 'b' }, strict)), ['a'], 'y')).toEqual([]);
    expect(allowed(makeRules(conditional('a', { x: 'b' }, strict)), ['a'], null)).toEqual([]);
  });

  test('prefers an equally spelled output to an output of equal meaning', () => {
    const rules = makeRules(conditional('a', { True: 'b', true: 'c', '01': 'b', '1': 'd' }));
    expect(allowed(rules, ['a'], 'true')).toEqual(['c']);
    expect(allowed(rules, ['a'], '1')).toEqual(['d']);
  });

  test('may answer an empty result', () => {
    expect(allowed(makeRules(conditional('a', { '': 'b' })), ['a'], '')).toEqual(['b']);
    expect(allowed(makeRules(conditional('a', { '': 'b' })), ['a'], '{}')).toEqual(['b']);
  });
});

describe('demands of the rules', () => {
  test('a call is due at the start by run_first, and after a tool with children', () => {
    expect(mustForce(makeRules(first('a')), NO_HISTORY)).toBe(true);
    expect(mustForce(makeRules(first('a')), after(['a']))).toBe(false);
    expect(mustForce([], NO_HISTORY)).toBe(false);
    for (const rule of [child('a', 'b'), parent('a', 'b'), conditional('a', { x: 'b' })]) {
      expect(mustForce(makeRules(rule), after(['a']))).toBe(true);
      expect(mustForce(makeRules(rule), after(['a', 'b']))).toBe(false);
    }
    expect(mustForce(makeRules(maxCount('a', 3), goesOn('a'), terminal('a')), after(['a']))).toBe(false);
  });

  test('a limit on calls does not demand to go on', () => {
    expect(continues(makeRules(maxCount('a', 3)), 'a')).toBe(false);
    expect(continues(makeRules(parent('a', 'b')), 'a')).toBe(false);
    for (const rule of [goesOn('a'), child('a', 'b'), conditional('a', { x: 'b' })]) {
      expect(continues(makeRules(rule), 'a')).toBe(true);
      expect(continues(makeRules(rule), 'b')).toBe(false);
    }
  });

  test('terminal tools and tools that need approval are those named', () => {
    const rules = makeRules(terminal('a'), approval('b'));
    expect(tools.map((name) => isTerminal(rules, name))).toEqual([true, false, false, false]);
    expect(tools.map((name) => requiresApproval(rules, name))).toEqual([false, true, false, false]);
  });

  test('required tools are missing until they were called, and never when they are not attached', () => {
    const rules = makeRules(required('c'), required('a'), required('zzz'));
    expect(uncalledRequired(rules, NO_HISTORY, tools)).toEqual(['c', 'a']);
    expect(uncalledRequired(rules, after(['a', 'b']), tools)).toEqual(['c']);
    expect(uncalledRequired(rules, after(['a', 'c']), tools)).toEqual([]);
  });
});

describe('rules without a possible first call are refused when they are given', () => {
  test('a first tool that is not attached is named', () => {
    expect(checkToolRules(makeRules(child('a', 'b'), first('zzz')), tools)).toEqual([
      {
        path: '/tool_rules/1/tool_name',
        message: "The tool that must run first, 'zzz', is not attached; attach it or drop the rule.",
      },
    ]);
    expect(checkToolRules(makeRules(first('a')), [], '/x')[0]?.path).toBe('/x/0/tool_name');
  });

  test('nothing is callable first', () => {
    expect(checkToolRules(makeRules(parent('zzz', 'a', 'b', 'c', 'd')), tools)).toEqual([
      {
        path: '/tool_rules',
        message: 'No tool may be called first under these rules; add a run_first rule.',
      },
    ]);
  });

  test('other rules about tools that are not attached are accepted', () => {
    expect(
      checkToolRules(makeRules(first('a'), first('zzz'), required('zzz'), child('y', 'x')), tools),
    ).toEqual([]);
    expect(checkToolRules(makeRules(terminal('zzz')), [])).toEqual([]);
    expect(checkToolRules([], [])).toEqual([]);
  });
});

const name = fc.constantFrom('a', 'b', 'c', 'd', 'zzz');
const names = fc.array(name, { maxLength: 4 });
const anyRule = fc.oneof(
  name.map((tool) => first(tool)),
  name.map(terminal),
  name.map(goesOn),
  name.map(required),
  fc.tuple(name, names).map(([tool, children]) => child(tool, ...children)),
  fc.tuple(name, names).map(([tool, children]) => parent(tool, ...children)),
  fc
    .tuple(name, name, fc.boolean(), fc.option(name))
    .map(([tool, to, strict, other]) =>
      conditional(tool, { ok: to }, { require_output_mapping: strict, default_child: other }),
    ),
  fc.tuple(name, fc.integer({ min: 1, max: 3 })).map(([tool, limit]) => maxCount(tool, limit)),
);

describe('for any rules and history', () => {
  test('only available tools are allowed, each once, and more rules never allow more after the start', () => {
    fc.assert(
      fc.property(
        fc.array(anyRule, { maxLength: 5 }),
        anyRule,
        fc.array(name, { maxLength: 5 }),
        fc.constantFrom('ok', 'no'),
        (some, more, calls, result) => {
          const few = allowed(makeRules(...some), calls, result);
          expect(new Set(few).size).toBe(few.length);
          expect(tools).toEqual(expect.arrayContaining([...few]));
          if (calls.length === 0) return;
          expect(few).toEqual(expect.arrayContaining([...allowed(makeRules(...some, more), calls, result)]));
        },
      ),
    );
  });

  test('the order of rules changes nothing once a call was made', () => {
    fc.assert(
      fc.property(
        fc.array(anyRule, { maxLength: 5 }),
        fc.array(name, { minLength: 1, maxLength: 5 }),
        (some, calls) => {
          expect(allowed(makeRules(...some.toReversed()), calls)).toEqual(allowed(makeRules(...some), calls));
        },
      ),
    );
  });
});
