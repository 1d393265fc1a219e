import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import { checkRequiredTools } from '../../src/rules/reach.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import { allowedTools } from '../../src/rules/solver.ts';
import {
  after,
  child,
  conditional,
  first,
  makeRules,
  maxCount,
  parent,
  required,
  terminal,
} from './rules.ts';

const tools = ['a', 'b', 'c', 'finish'];
const NEVER = 'the other rules never allow it: name it among the children of a tool that can be called';

describe('a required tool that no run can reach', () => {
  test('is named with its rule, and with its parent tool', () => {
    expect(
      checkRequiredTools(makeRules(parent('zzz', 'b'), parent('b', 'zzz'), required('b')), tools),
    ).toEqual([
      {
        path: '/tool_rules/2/tool_name',
        message:
          "'b' must be called before a run may end, but only directly after 'zzz', which the rules never allow: " +
          'make that tool callable, or drop the rule.',
      },
    ]);
  });

  test.each([
    [
      'children that close a circle without it',
      [first('a'), child('a', 'b'), child('b', 'a'), required('c')],
    ],
    ['a chain of parents that goes in a circle', [parent('b', 'c'), parent('c', 'b'), required('c')]],
    [
      'a child that is forbidden otherwise',
      [first('a'), child('a', 'c'), parent('b', 'c'), child('c', 'a'), required('c')],
    ],
    [
      'conditions of which no outcome leads there',
      [
        first('a'),
        conditional('a', { yes: 'b' }, { default_child: 'a' }),
        conditional('b', { yes: 'a' }, { require_output_mapping: true }),
        required('c'),
      ],
    ],
  ])('is found behind %s', (_name, rules) => {
    expect(checkRequiredTools(makeRules(...rules), tools, null, '/x')).toMatchObject([
      {
        path: `/x/${rules.length - 1}/tool_name`,
        message: expect.stringContaining("'c' must be called") as string,
      },
    ]);
  });

  test('may be finish, which a run that owes a result has to call without a rule', () => {
    const rules = makeRules(first('a'), child('a', 'b'), child('b', 'a'));
    const message = `'finish' must be called to hand over the result, but ${NEVER}.`;
    expect(checkRequiredTools(rules, tools, 'finish')).toEqual([{ path: '/tool_rules', message }]);
    expect(checkRequiredTools(rules, tools)).toEqual([]);
    const owing = [...rules, ...makeRules(required('finish'))];
    expect(checkRequiredTools(owing, tools, 'finish')).toEqual([
      {
        path: '/tool_rules/3/tool_name',
        message: `'finish' must be called before a run may end, but ${NEVER}, or drop the rule.`,
      },
    ]);
  });
});

test.each([
  ['is not attached', [parent('b', 'zzz'), parent('zzz', 'b'), required('zzz')]],
  ['follows a tool that may be attached yet', [parent('zzz', 'b'), required('b')]],
  [
    'follows a chain of tools that may be attached yet',
    [first('a'), child('a', 'zzz'), child('zzz', 'yyy'), conditional('yyy', { x: 'c' }), required('c')],
  ],
  ['follows a tool that can be called', [first('a'), child('a', 'b'), parent('b', 'c'), required('c')]],
  [
    'is one outcome of a condition',
    [first('a'), conditional('a', { x: 'b', y: 'c' }), child('b', 'a'), required('c')],
  ],
  [
    'may follow a condition without an outcome for it',
    [first('a'), conditional('a', { x: 'b' }), child('b', 'a'), required('c')],
  ],
  [
    'comes after a tool that ends runs, or is limited',
    [first('a'), maxCount('a', 1), terminal('a'), required('c')],
  ],
  ['is in rules that leave nothing to begin with', [first('zzz'), required('c')]],
])('a required tool that %s is no problem', (_name, rules) => {
  expect(checkRequiredTools(makeRules(...rules), tools)).toEqual([]);
});

describe('whatever the rules are', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'zzz');
  const names = fc.array(name, { maxLength: 3 });
  const rule = fc.oneof(
    name.map((tool) => first(tool)),
    fc.tuple(name, names).map(([tool, children]) => child(tool, ...children)),
    fc.tuple(name, names).map(([tool, children]) => parent(tool, ...children)),
    fc
      .tuple(name, name, fc.boolean(), fc.option(name))
      .map(([tool, to, strict, other]) =>
        conditional(tool, { ok: to }, { require_output_mapping: strict, default_child: other }),
      ),
    name.map((tool) => maxCount(tool, 1)),
  );
  const refusedBy = (rules: readonly ToolRule[]): readonly string[] =>
    checkRequiredTools(rules, tools).map(({ message }) => /^'(\w+)'/.exec(message)?.[1] ?? '');

  test('no reachable tool is refused', () => {
    const walk = fc.array(fc.tuple(fc.nat(), fc.constantFrom('ok', 'no')), { maxLength: 6 });
    const attachedLater = fc.subarray(['zzz', 'other']);
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 6 }), walk, attachedLater, (given, steps, later) => {
        const rules = makeRules(...given, ...tools.map(required));
        let history = NO_HISTORY;
        for (const [choice, result] of steps) {
          const allowed = allowedTools(rules, history, [...tools, ...later]);
          const next = allowed[choice % Math.max(1, allowed.length)];
          if (next === undefined) break;
          history = after([...history.calls, next], result);
        }
        const refused = refusedBy(rules);
        expect(history.calls.filter((call) => refused.includes(call))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  /** Returns whether no rule forbids `next` after `last`: any outcome of a condition may come. */
  const mayFollow = (rules: readonly ToolRule[], last: string, next: string): boolean =>
    rules.every((each) => {
      const isLast = each.tool_name === last;
      if (each.type === 'constrain_child_tools') return !isLast || each.children.includes(next);
      if (each.type === 'parent_last_tool') return isLast === each.children.includes(next);
      if (each.type !== 'conditional' || !isLast) return true;
      const others = each.require_output_mapping ? [] : [each.default_child ?? next];
      return [...Object.values(each.child_output_mapping), ...others].includes(next);
    });

  test('every tool not refused is reachable when each rule is asked about each name', () => {
    const all = [...tools, 'zzz'];
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 6 }), (given) => {
        const rules = makeRules(...given, ...tools.map(required));
        const reached = new Set(allowedTools(rules, NO_HISTORY, all));
        for (const last of reached)
          for (const next of all) if (mayFollow(rules, last, next)) reached.add(next);
        const missed = tools.filter((tool) => !reached.has(tool));
        expect(refusedBy(rules)).toEqual(reached.size === 0 ? [] : missed);
      }),
      { numRuns: 2_000 },
    );
  });
});

const upTo = (count: number, letter: string): string[] =>
  Array.from({ length: count }, (_, place) => `${letter}${place}`);

test.each<[string, JsonObject[]]>([
  ['500 parents of five tools each', upTo(500, 'p').map((tool) => parent(tool, ...upTo(5, `${tool}-`)))],
  ['500 parents of 500 tools each', upTo(500, 'p').map((tool) => parent(tool, ...upTo(500, `${tool}-`)))],
  ['500 parents of the same 500 tools', upTo(500, 'p').map((tool) => parent(tool, ...upTo(500, 'c')))],
  [
    '500 tools of which each has all as children',
    upTo(500, 'c').map((tool) => child(tool, ...upTo(500, 'c'))),
  ],
  [
    'a tool with 500 rules for the same 500 children',
    [first('a'), ...upTo(499, 'c').map((tool) => child('a', ...upTo(498, 'c'), tool, 'a'))],
  ],
  [
    '250 required tools that 250 parents have as children',
    [...upTo(250, 'p').map((tool) => parent(tool, ...upTo(500, 'c'))), ...upTo(250, 'c').map(required)],
  ],
])('%s are checked soon', (_name, given) => {
  const rules = makeRules(...given);
  expect(cpuMsOf(() => checkRequiredTools(rules, [...tools, ...upTo(496, 'c')], 'finish'))).toBeLessThan(
    2_000,
  );
});
