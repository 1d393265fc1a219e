import type { Json } from '../base/json.ts';
import { detectLoop, type LoopVerdict } from '../context/loops.ts';
import { transition } from '../machine/machine.ts';
import { runMachine } from '../machine/run.ts';
import type { ToolCallState } from '../machine/tool-call.ts';
import type { BlockChange } from '../model/block-change.ts';
import type { ToolUseBlock } from '../model/content.ts';
import { CARRIED_OUT } from '../model/tool.ts';
import type { EndedCall, StepMemory } from '../model/tool-call.ts';
import { loopAfterCalls } from '../rules/loop.ts';
import { toolResultsMessage, withText } from '../tools/results.ts';
import { EVENT_OF_MOVE } from './decided.ts';
import {
  cancelledMove,
  completed,
  failed,
  overdueMove,
  type AppendedMessage,
  type RunFacts,
  type RunMove,
} from './decision.ts';
import { isCancelling, nextStep } from './moves.ts';
import {
  areSettled,
  carryOutBuiltIn,
  endedCall,
  NO_MEMORY,
  type SettledCall,
  type StepCall,
} from './step-calls.ts';
import { NO_TOOL_POLICY, type ToolPolicy } from './tool-policy.ts';
import { afterCallsOf, NO_TRAIL, rememberRefusal, withRefusal } from './trail.ts';

/** The decision about a run after all results of its step. */
export interface ResultsDecision {
  readonly run_id: string;
  readonly step_number: number;
  readonly reason: string;
  readonly message: AppendedMessage;
  readonly calls: readonly EndedCall[];
  /** Memory changes of the calls carried out, in order. */
  readonly changes: readonly BlockChange[];
  readonly run: RunMove;
}

/**
 * Decides about a run with all results of tool host and caller. Carries out open calls of built-in tools first.
 * Throws: for any other call without an outcome.
 */
export function decideResults(
  run: RunFacts,
  given: readonly StepCall[],
  toolPolicy: ToolPolicy = NO_TOOL_POLICY,
  memory: StepMemory = NO_MEMORY,
): ResultsDecision {
  const { calls, changes } = carryOutBuiltIn(given, memory, false);
  if (!areSettled(calls)) throw new Error(`A call of run ${run.id}, step ${run.step_number}, was not made.`);
  const { reason, message, move } = afterResults(run, run.last_seq, calls, toolPolicy);
  transition(runMachine, run.state, EVENT_OF_MOVE[move.state]);
  const { id: run_id, step_number } = run;
  return { run_id, step_number, reason, message, calls: calls.map(endedCall), changes, run: move };
}

/**
 * Ends a run whose results can never be stored.
 * Each call is answered with an error, so that the conversation stays usable; the rows keep their own outcomes.
 */
export function decidePoisonedResults(
  run: RunFacts,
  uses: readonly ToolUseBlock[],
  rows: readonly { readonly call_index: number; readonly state: ToolCallState }[],
): ResultsDecision {
  transition(runMachine, run.state, 'fail');
  const { id: run_id, step_number, last_seq } = run;
  const outcome = { ok: false, result: 'The call could not be processed.' };
  const content_json = toolResultsMessage(uses.map(({ id }) => ({ tool_use_id: id, outcome })));
  return {
    run_id,
    step_number,
    reason: 'poison',
    message: { seq: last_seq + 1, role: 'user', content_json, shown: true },
    calls: rows.map(({ call_index, state }) => ({
      call_index,
      state: state === 'pending' ? 'failed' : state === 'running' ? 'unknown' : state,
      duration_ms: 0,
    })),
    changes: [],
    run: failed('poison', 'The results of its tool calls cannot be processed; the log names the cause.'),
  };
}

/** The move after the results of a step, and the message with them. */
interface AfterResults {
  readonly reason: string;
  readonly message: AppendedMessage;
  readonly move: RunMove;
}

/**
 * Decides once every call of the step has its result. `assistantSeq` is the number of the message with the calls.
 * In this order: batch being cancelled → end; tool rules and step limit, see {@link loopAfterCalls}; deadline passed →
 * end; loop detected → end; on. The step limit is exact: calls of the last step are carried out before the run ends.
 */
export function afterResults(
  run: RunFacts,
  assistantSeq: number,
  calls: readonly SettledCall[],
  toolPolicy: ToolPolicy,
): AfterResults {
  const results = toolResultsMessage(
    calls.map(({ planned, outcome }) => ({ tool_use_id: planned.tool_use_id, outcome })),
  );
  const [reason, move, reask] = moveAfterResults(run, calls, toolPolicy);
  const content_json = reask === null ? results : withText(results, reask);
  return { reason, message: { seq: assistantSeq + 1, role: 'user', content_json, shown: true }, move };
}

function moveAfterResults(
  run: RunFacts,
  settled: readonly SettledCall[],
  toolPolicy: ToolPolicy,
): readonly [reason: string, move: RunMove, reask: string | null] {
  if (isCancelling(run)) return ['batch is being cancelled', cancelledMove, null];
  const calls = settled.map(({ planned, outcome, denied }) => ({
    tool_name: planned.tool_name,
    input: planned.args,
    result: outcome.result,
    ok: outcome.ok,
    is_error: !outcome.ok,
    acts: CARRIED_OUT[planned.kind] !== 'worker' || planned.tool?.side_effects !== 'none',
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
    if (error !== null) return [reason, failed(stop_reason, error), null];
    const result = stop_reason === 'tool_rule' ? finishedWith(settled) : undefined;
    if (toolPolicy.result !== null && result === undefined) {
      const message = withRefusal(`The run ended without the result that it owes: ${reason}.`, trail);
      return [reason, failed(stop_reason, message), null];
    }
    return [reason, completed(stop_reason, result), null];
  }
  if (run.is_overdue === true) return ['deadline passed', overdueMove, null];
  const verdict = detectLoop(trail.steps);
  if (verdict !== null)
    return ['goes round in circles', failed('loop_detected', withRefusal(loopText(verdict), trail)), null];
  return [loop.reason, nextStep(run, trail), loop.reask];
}

/** Returns the result given to the first `finish` call; undefined without such a call. */
function finishedWith(settled: readonly SettledCall[]): Json | undefined {
  const call = settled.find(({ planned, outcome }) => planned.kind === 'finish' && outcome.ok);
  return call?.planned.args['result'];
}

/** Returns the error text of the last refused `finish` call; undefined if none is refused. */
function refusalIn(settled: readonly SettledCall[]): string | undefined {
  return settled.findLast(({ planned, outcome }) => planned.tool?.kind === 'finish' && !outcome.ok)?.outcome
    .result;
}

function loopText(verdict: LoopVerdict): string {
  if (verdict.kind === 'stall')
    return `The last ${verdict.steps} steps brought nothing new: their calls failed or had results that were there before.`;
  const { cycle_len, repeats } = verdict;
  const subject = cycle_len === 1 ? 'The same step' : `The same ${cycle_len} steps`;
  return `${subject} came ${repeats} times in a row, with the same calls, arguments and results.`;
}
