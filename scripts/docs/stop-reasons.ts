import type { RunState, StopReason } from '../../libs/agent-core/src/index.ts';

interface StopReasonDoc {
  readonly ends_as: Extract<RunState, 'completed' | 'failed' | 'cancelled' | 'expired'>;
  readonly when: string;
  /** The wire and the schema know the name, but no run ends with it yet. */
  readonly reserved?: true;
}

/** Describes each stop reason, in the order of the machine. */
export const STOP_REASON_DOCS: Readonly<Record<StopReason, StopReasonDoc>> = {
  end_turn: { ends_as: 'completed', when: 'The model finished its answer and called no tool.' },
  tool_rule: {
    ends_as: 'completed',
    when: 'A successful call of `finish`, or of a tool whose `exit_loop` rule ends the run. `failed` if the run owes another result.',
  },
  max_steps: {
    ends_as: 'completed',
    when: 'The step limit was reached. The calls of the last step were carried out, and their results are stored. `failed` if the last answer was empty, or if the run owes its result.',
  },
  max_tokens: {
    ends_as: 'failed',
    when: 'The answer was cut off at `max_tokens`. A cut inside a tool call is tried once more with twice as many tokens.',
  },
  stop_sequence: {
    ends_as: 'completed',
    when: 'The model wrote a stop sequence of its definition.',
  },
  refusal: {
    ends_as: 'failed',
    when: 'The model refused. Its answer is stored, and later requests do not show it.',
  },
  budget_exceeded: {
    ends_as: 'failed',
    when: 'The next step could exceed a cap of the run, `max_cost_usd` or `max_output_tokens`. It was not sent.',
  },
  loop_detected: {
    ends_as: 'failed',
    when: 'The run repeated itself: the same steps, no new results, or too many pauses or repeated questions.',
  },
  context_overflow: {
    ends_as: 'failed',
    when: 'The conversation no longer fits the context window of the model.',
  },
  no_valid_tools: { ends_as: 'failed', when: 'A call was due or tried, and the tool rules allow no tool.' },
  invalid_request: {
    ends_as: 'failed',
    when: 'The provider refused a request, or a tool rule fixes arguments that its tool does not accept.',
  },
  provider_error: {
    ends_as: 'failed',
    when: 'Every attempt of a step failed at the provider or came back unreadable. Or an answer has an unknown stop reason.',
  },
  unusable_answer: {
    ends_as: 'failed',
    when: 'A whole answer cannot be stored or sent back: nested deeper than 128 levels, no list of blocks, no stop reason, or a call without a valid name or input. It is booked, and not asked for again.',
  },
  expired: { ends_as: 'expired', when: 'The provider let every attempt of a step expire.' },
  cancelled: {
    ends_as: 'cancelled',
    when: 'The batch was cancelled. Or every attempt of a step was cancelled at the provider.',
  },
  deadline: { ends_as: 'failed', when: 'Its deadline passed before its last step.' },
  poison: {
    ends_as: 'failed',
    when: 'Its request could not be built, its answer could not be stored, or it ended several workers.',
  },
};
