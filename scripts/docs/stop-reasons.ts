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
    when: 'A tool was called with success whose `exit_loop` rule ends the run, or `finish`. Failed where the run owes another result.',
  },
  max_steps: {
    ends_as: 'completed',
    when: 'The step limit was reached. The calls of the last step were carried out and their results are stored. Failed where the last answer was empty, no word and no call, and where the run still owes its result.',
  },
  max_tokens: {
    ends_as: 'failed',
    when: 'The answer was cut off at `max_tokens`; inside a tool call, also after one try with twice as many.',
  },
  stop_sequence: {
    ends_as: 'completed',
    when: 'The model came to one of the stop sequences of its definition.',
  },
  refusal: {
    ends_as: 'failed',
    when: 'The model refused. What it said is stored and not shown to later requests.',
  },
  budget_exceeded: {
    ends_as: 'failed',
    when: 'Its next step could exceed a cap of the run, `max_cost_usd` or `max_output_tokens`; it was not sent.',
  },
  loop_detected: {
    ends_as: 'failed',
    when: 'The run got nowhere: the same steps over and over, results it had before, pauses or re-asks without end.',
  },
  context_overflow: {
    ends_as: 'failed',
    when: 'The conversation no longer fits the context window of the model.',
  },
  no_valid_tools: { ends_as: 'failed', when: 'A call was due, or tried, and the tool rules allow none.' },
  invalid_request: {
    ends_as: 'failed',
    when: 'The provider refused the request of a step for good, or a tool rule fixes arguments that its tool does not take.',
  },
  provider_error: {
    ends_as: 'failed',
    when: 'The provider failed, or sent nothing that can be read, in every attempt of a step; or it ended an answer in a way that is not known here.',
  },
  unusable_answer: {
    ends_as: 'failed',
    when: 'An answer came whole and can neither be stored nor sent back: nested deeper than 128 levels, no list of blocks, without a stop reason, or with a call that has no proper name or input. It is booked and not asked for again.',
  },
  expired: { ends_as: 'expired', when: 'The provider let every attempt of a step expire.' },
  cancelled: {
    ends_as: 'cancelled',
    when: 'The batch was cancelled, or every attempt of a step was cancelled at the provider.',
  },
  deadline: { ends_as: 'failed', when: 'It had further steps to take when its deadline passed.' },
  poison: {
    ends_as: 'failed',
    when: 'Its request could not be built, its answer or results not stored, or work on it ended worker after worker.',
  },
};
