import { transition } from '../machine/machine.ts';
import { runMachine, type RunEvent } from '../machine/run.ts';
import { nextStep } from './after-answer.ts';
import {
  cancelledMove,
  completed,
  failed,
  type AppendedMessage,
  type RunFacts,
  type RunMove,
} from './decision.ts';

/** What the results of all calls of a step do to the run. */
export interface ToolsDecision {
  readonly kind: 'settle';
  readonly run_id: string;
  readonly step_number: number;
  readonly reason: string;
  readonly message: AppendedMessage;
  readonly run: RunMove;
}

/**
 * Decides once every call of the step has its result. `assistantSeq` is the number of the message with the calls;
 * `resultsJson` is the user message that answers all of them. The step limit is exact: a run whose last allowed step
 * called tools has had them carried out, and ends. `ends` says that a tool rule ends the run with this step.
 */
export function decideAfterTools(
  run: Pick<RunFacts, 'id' | 'batch_state' | 'state' | 'step_number' | 'max_steps'>,
  assistantSeq: number,
  resultsJson: string,
  ends = false,
): ToolsDecision {
  const message: AppendedMessage = {
    seq: assistantSeq + 1,
    role: 'user',
    content_json: resultsJson,
    shown: true,
  };
  const [reason, event, move] = moveAfterTools(run, ends);
  transition(runMachine, run.state, event);
  return { kind: 'settle', run_id: run.id, step_number: run.step_number, reason, message, run: move };
}

/**
 * Ends a run whose results cannot be stored, however often it is tried. `resultsJson` answers its calls with errors, so
 * that its conversation stays usable.
 */
export function decidePoisonedTools(
  run: Pick<RunFacts, 'id' | 'state' | 'step_number'>,
  assistantSeq: number,
  resultsJson: string,
): ToolsDecision {
  transition(runMachine, run.state, 'fail');
  const message: AppendedMessage = {
    seq: assistantSeq + 1,
    role: 'user',
    content_json: resultsJson,
    shown: true,
  };
  const move = failed(
    'poison',
    'The results of its tool calls cannot be processed; the log names the cause.',
  );
  return {
    kind: 'settle',
    run_id: run.id,
    step_number: run.step_number,
    reason: 'poison',
    message,
    run: move,
  };
}

function moveAfterTools(
  run: Pick<RunFacts, 'batch_state' | 'step_number' | 'max_steps'>,
  ends: boolean,
): readonly [string, RunEvent, RunMove] {
  if (run.batch_state === 'cancelling' || run.batch_state === 'cancelled') {
    return ['batch is being cancelled', 'cancel', cancelledMove];
  }
  if (ends) return ['a tool rule ends the run', 'complete', completed('tool_rule')];
  if (run.step_number >= run.max_steps) return ['step limit reached', 'complete', completed('max_steps')];
  return ['results go back to the model', 'continue', nextStep(run)];
}
