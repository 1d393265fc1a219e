import { expect, test } from 'vitest';
import { modelTraits } from '../../src/model/traits.ts';

test('earlier models accept a forced choice, keep their thinking in any conversation, and need not think', () => {
  for (const model of [
    'claude-haiku-4-5',
    'claude-haiku-4-5-20251001',
    'claude-opus-4-8',
    'claude-sonnet-5',
  ]) {
    expect(modelTraits(model)).toMatchObject({
      takes_forced_choice: true,
      binds_thinking: false,
      thinks_always: false,
    });
  }
});

test('Haiku 5.5 accepts a forced choice, for it need not think, and binds its thinking', () => {
  expect(modelTraits('claude-haiku-5-5')).toMatchObject({
    takes_forced_choice: true,
    binds_thinking: true,
    thinks_always: false,
  });
});

test('models of the latest generation, and unknown models, are the other way round', () => {
  for (const model of [
    'claude-opus-5-5',
    'claude-fable-5-1',
    'claude-mythos-5-2',
    'claude-opus-6',
    'gpt',
    '',
  ]) {
    expect(modelTraits(model)).toMatchObject({
      takes_forced_choice: false,
      binds_thinking: true,
      thinks_always: true,
    });
  }
});

test.each([
  ['claude-haiku-4-5-20251001', true, false],
  ['claude-opus-4-5', true, false],
  ['claude-sonnet-4-6', true, true],
  ['claude-opus-4-6', true, true],
  ['claude-opus-4-7', false, true],
  ['claude-sonnet-5', false, true],
  ['claude-haiku-5-5', false, true],
  ['claude-opus-6', false, true],
])(
  '%s thinks within a budget: %s; as it sees fit: %s',
  (model, takes_thinking_budget, takes_adaptive_thinking) => {
    expect(modelTraits(model)).toMatchObject({ takes_thinking_budget, takes_adaptive_thinking });
  },
);

test.each([
  ['claude-haiku-4-5-20251001', false],
  ['claude-sonnet-4-5', false],
  ['claude-opus-4-5', true],
  ['claude-sonnet-4-6', true],
  ['claude-haiku-5-5', true],
  ['claude-opus-6', true],
])('%s takes an effort: %s', (model, takes_effort) => {
  expect(modelTraits(model)).toMatchObject({ takes_effort });
});

test('models before Opus 4.1 and the generation 4.5 do not enforce schemas', () => {
  const without = [
    'claude-3-5-sonnet-20241022',
    'claude-3-haiku-20240307',
    'claude-2.1',
    'claude-sonnet-4-20250514',
    'claude-sonnet-4-0',
    'claude-opus-4-20250514',
    'claude-opus-4-0',
  ];
  const takes = [
    'claude-opus-4-1-20250805',
    'claude-sonnet-4-5-20250929',
    'claude-haiku-4-5',
    'claude-opus-5-5',
    'claude-opus-6',
    'gpt',
  ];
  expect(without.filter((model) => modelTraits(model).takes_strict)).toEqual([]);
  expect(takes.filter((model) => !modelTraits(model).takes_strict)).toEqual([]);
});
