import { fc } from '../../../../test/fast-check.ts';
import type { StepOutcome } from '../../src/decide/step-outcome.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import { makeAnswer } from './facts.ts';

/** A call of a fleet tool, or an invalid call: name, arguments, id or the lack of it. */
const toolUse: fc.Arbitrary<ContentBlock> = fc.record({
  type: fc.constant('tool_use'),
  // Few ids, so that an answer repeats an id now and then.
  id: fc.constantFrom('toolu_1', 'toolu_2', 'toolu_3', 'toolu_4', 'toolu_5'),
  name: fc.constantFrom('core_memory_append', 'memory_replace', 'rethink_memory', 'lookup', 'no_such_tool'),
  input: fc.oneof(
    fc.record({ label: fc.constantFrom('human', 'rules', 'absent'), content: fc.string({ maxLength: 20 }) }),
    fc.record({ target_block_label: fc.constant('human'), new_memory: fc.string({ maxLength: 80 }) }),
    fc.record({
      label: fc.constant('human'),
      old_string: fc.constantFrom('known', 'x'),
      new_string: fc.string(),
    }),
    fc.record({ q: fc.string() }),
    fc.constant({}),
    fc.constant('not an object'),
  ),
});
const brokenToolUse: fc.Arbitrary<ContentBlock> = toolUse.map(({ id: _id, ...rest }) => ({
  ...rest,
  type: 'tool_use',
}));

const block: fc.Arbitrary<ContentBlock> = fc.oneof(
  { weight: 6, arbitrary: toolUse },
  { weight: 4, arbitrary: fc.string().map((said) => ({ type: 'text', text: said })) },
  { weight: 1, arbitrary: fc.constant({ type: 'thinking', thinking: '', signature: 'sig' }) },
  {
    weight: 1,
    arbitrary: fc.constant({ type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }),
  },
  { weight: 1, arbitrary: fc.constant({ type: 'block_of_next_year', anything: [1, { deep: null }] }) },
  { weight: 1, arbitrary: brokenToolUse },
);

const stopReason = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('tool_use', 'end_turn') },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      'pause_turn',
      'max_tokens',
      'stop_sequence',
      'refusal',
      'model_context_window_exceeded',
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('compaction', null) },
);

/** Any outcome of a step at the provider. */
export const anyOutcome: fc.Arbitrary<StepOutcome> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(stopReason, fc.array(block, { maxLength: 5 }))
      .map(([reason, content]): StepOutcome => ({ kind: 'answered', answer: makeAnswer(reason, content) })),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('errored' as const),
      error_class: fc.constantFrom('permanent' as const, 'too_long' as const, 'retryable' as const),
      error_type: fc.constantFrom('api_error', 'invalid_request_error'),
      message: fc.string(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<StepOutcome>(
      { kind: 'expired' },
      { kind: 'canceled' },
      { kind: 'missing', bill: null },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('unreadable' as const, 'unusable' as const),
      reason: fc.string(),
      bill: fc.constantFrom(null, makeAnswer('end_turn', [])),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('unfit' as const), message: fc.string() }) },
);
