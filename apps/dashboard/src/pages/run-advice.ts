import type { EndedReason } from '@nightshift/client';

/** What a person can do about a run that ended for a reason; none where nothing is wrong. */
export const ADVICE: Readonly<Partial<Record<EndedReason, string>>> = {
  max_steps: 'The run took all its steps. Raise max_steps, or ask for less, and retry it.',
  max_tokens: 'The answer was cut off at its length. Raise the max_tokens of the agent and retry the run.',
  refusal: 'The model refused. Change the text or the system prompt of the agent before you retry the run.',
  budget_exceeded: 'The next step did not fit under the cap of the run. Raise the cap in a new batch.',
  loop_detected:
    'The agent repeated the same calls. Look at the last calls, and mend the tool or the prompt.',
  context_overflow:
    'The conversation no longer fits into the model. Compact or reset the messages of the agent, then retry.',
  no_valid_tools:
    'The tool rules of the agent left no tool to call. Mend the rules, then retry with the current agent.',
  invalid_request: 'The provider refused the request. Mend what the message names, then retry the run.',
  provider_error: 'The provider failed each time. Retry the run when the provider is well again.',
  unusable_answer: 'The answers of the model could not be read. Retry the run, or take another model.',
  expired: 'The provider did not answer in time. Retry the run.',
  deadline: 'The deadline passed. Retry the run with a later deadline.',
  poison: 'The run stopped its worker each time. Look into the log of the workers before you retry it.',
  cancelled: 'The run was cancelled. Retry it if its work is still wanted.',
};
