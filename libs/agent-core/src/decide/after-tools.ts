import type { Json } from '../base/json.ts';
import { transition } from '../machine/machine.ts';
import { runMachine, type RunEvent } from '../machine/run.ts';
import { detectLoop, type LoopVerdict } from '../context/loops.ts';
import { loopAfterCalls } from '../rules/loop.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { withText } from '../tools/results.ts';
import { nextStep } from './moves.ts';
import { NO_TOOL_POLICY, type ToolPolicy } from './tool-policy.ts';
import {
  cancelledMove,
  completed,
  failed,
  overdueMove,
  type AppendedMessage,
  type RunFacts,
  type RunMove,
} from './decision.ts';
import type { PlannedCall } from './plan-calls.ts';
import { afterCallsOf, NO_TRAIL, rememberRefusal, withRefusal } from './trail.ts';

/** A call of a step that has come to an end. */
export interface SettledCall {
  readonly planned: PlannedCall;
  readonly outcome: ToolOutcome;
  /** The caller did not let it happen: for the tool rules it never did. */
  readonly denied?: boolean;
}

/** What the results of all calls of a step do to the run. */
export interface ToolsDecision {
  readonly run_id: string;
  readonly step_number: number;
  readonly reason: string;
  readonly message: AppendedMessage;
  readonly run: RunMove;
}

/**
 * Decides once every call of the step has its result. `assistantSeq` is the number of the message with the calls;
 * `resultsJson` is the user message that answers all of them. In this order: the batch is being cancelled → the end;
 * what the tool rules and the step limit say, see {@link loopAfterCalls}; its deadline has passed → the end; the run goes round in circles → the end; on.
 * The step limit is exact: a run whose last allowed step called tools has had them carried out, and ends.
 */
export function decideAfterTools(
  run: Pick<RunFacts, 'id' | 'batch_state' | 'state' | 'step_number' | 'max_steps' | 'trail' | 'is_overdue'>,
  assistantSeq: number,
  resultsJson: string,
  calls: readonly SettledCall[] = [],
  toolPolicy: ToolPolicy = NO_TOOL_POLICY,
): ToolsDecision {
  const [reason, event, move, reask] = moveAfterTools(run, calls, toolPolicy);
  transition(runMachine, run.state, event);
  const message: AppendedMessage = {
    seq: assistantSeq + 1,
    role: 'user',
    content_json: reask === null ? resultsJson : withText(resultsJson, reask),
    shown: true,
  };
  return { run_id: run.id, step_number: run.step_number, reason, message, run: move };
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
  return { run_id: run.id, step_number: run.step_number, reason: 'poison', message, run: move };
}

function moveAfterTools(
  run: Pick<RunFacts, 'batch_state' | 'step_number' | 'max_steps' | 'trail' | 'is_overdue'>,
  settled: readonly SettledCall[],
  toolPolicy: ToolPolicy,
): readonly [reason: string, event: RunEvent, move: RunMove, reask: string | null] {
  if (run.batch_state === 'cancelling' || run.batch_state === 'cancelled') {
    return ['batch is being cancelled', 'cancel', cancelledMove, null];
  }
  const calls = settled.map(({ planned, outcome, denied }) => ({
    tool_name: planned.tool_name,
    input: planned.args,
    result: outcome.result,
    ok: outcome.ok,
    is_error: !outcome.ok,
    acts: planned.kind !== 'module' || planned.tool?.side_effects !== 'none',
    carried_out: planned.kind !== 'rejected' && denied !== true,
    denied: denied === true,
    prefill_error: planned.prefill_error,
  }));
  const before = run.trail ?? NO_TRAIL;
  const { rules, available } = toolPolicy;
  const { step_number, max_steps } = run;
  const trail = rememberRefusal(afterCallsOf(before, rules, calls), before, refusalIn(settled));
  const loop = loopAfterCalls({ rules, available, history: before.history, step_number, max_steps }, calls);
  if (loop.kind === 'stop') {
    const { stop_reason, reason, error } = loop;
    if (error !== null) return [reason, 'fail', failed(stop_reason, error), null];
    const result = stop_reason === 'tool_rule' ? finishedWith(settled) : undefined;
    if (toolPolicy.result !== null && result === undefined) {
      const message = withRefusal(`The run ended without the result that it owes: ${reason}.`, trail);
      return [reason, 'fail', failed(stop_reason, message), null];
    }
    return [reason, 'complete', completed(stop_reason, result), null];
  }
  if (run.is_overdue === true) return ['deadline passed', 'fail', overdueMove, null];
  const verdict = detectLoop(trail.steps);
  if (verdict !== null)
    return [
      'goes round in circles',
      'fail',
      failed('loop_detected', withRefusal(loopText(verdict), trail)),
      null,
    ];
  return [loop.reason, 'continue', nextStep(run, trail), loop.reask];
}

/** What the first call of `finish` handed over; undefined where there is none. */
function finishedWith(settled: readonly SettledCall[]): Json | undefined {
  const call = settled.find(({ planned, outcome }) => planned.kind === 'finish' && outcome.ok);
  return call?.planned.args['result'];
}

/** What the model is told of the last call of `finish` that is refused; undefined where none is. */
function refusalIn(settled: readonly SettledCall[]): string | undefined {
  return settled.findLast(({ planned, outcome }) => planned.tool?.kind === 'finish' && !outcome.ok)?.outcome
    .result;
}

function loopText(verdict: LoopVerdict): string {
  if (verdict.kind === 'stall')
    return `The last ${verdict.steps} steps brought nothing new: their calls failed or had results that were there before.`;
  const { cycle_len, repeats } = verdict;
  const what = cycle_len === 1 ? 'The same step' : `The same ${cycle_len} steps`;
  return `${what} came ${repeats} times in a row, with the same calls, arguments and results.`;
}
