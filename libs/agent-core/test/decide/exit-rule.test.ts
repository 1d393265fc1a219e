import { expect, test } from 'vitest';
import { endsRun } from '../../src/decide/exit-rule.ts';

const rules = [
  { type: 'continue_loop', tool_name: 'note', prompt_template: null },
  { type: 'exit_loop', tool_name: 'finish', prompt_template: null },
];

test.each([
  ['the tool of an exit rule', [{ tool_name: 'finish', ok: true }], true],
  [
    'it beside others',
    [
      { tool_name: 'note', ok: false },
      { tool_name: 'finish', ok: true },
    ],
    true,
  ],
  ['it without success', [{ tool_name: 'finish', ok: false }], false],
  ['another tool', [{ tool_name: 'note', ok: true }], false],
  ['nothing', [], false],
])('a step that called %s', (_name, calls, expected) => {
  expect(endsRun(rules, calls)).toBe(expected);
});

test('without rules no call ends the run', () => {
  expect(endsRun([], [{ tool_name: 'finish', ok: true }])).toBe(false);
});
