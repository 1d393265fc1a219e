import {
  CARRIED_OUT,
  fromStorable,
  isCancelling,
  isContentBlock,
  NO_TRAIL,
  planCalls,
  stepUuid,
  toolUsesOf,
  toWireId,
  type ToolPolicy,
  type PlannedCall,
  type ToolDefinition,
  type ToolOutcome,
  type ToolUseBlock,
} from '@nightshift/agent-core';
import type { ActingRun, CallResult } from '@nightshift/db';
import { validateArguments } from './argument-validator.ts';
import type { ToolReply, ToolRequest } from '../../tools/runner.ts';

/** The outcome of a call, with the result for the model. */
export interface SettledCall {
  readonly outcome: ToolOutcome;
  readonly state: 'succeeded' | 'failed' | 'unknown';
  /** The caller denied the call. */
  readonly denied?: boolean;
}

/** A planned call of a run, and its outcome if it is known. */
export interface Call {
  readonly run: ActingRun;
  readonly planned: PlannedCall;
  readonly key: string;
  /** Known without asking a runner: stored on its row, in doubt after a crash, or no longer to be made. */
  readonly known: SettledCall | null;
}

const IN_DOUBT =
  'This call was interrupted and may or may not have taken effect. It was not run again; check before repeating it.';
/** Result of a call without an answer of the caller by the deadline, and of the calls that waited beside it. */
const TOO_LATE = 'The run passed its deadline before the caller answered; the call was not made.';
/** Result of a call whose batch was cancelled before it was made. */
export const NOT_MADE = 'The batch was cancelled before this call was made.';

/** Whether a call is built in. Such calls run in the commit of the results; only approved calls reach this flow. */
export function isBuiltInCall({ planned }: Call): boolean {
  return planned.kind !== 'rejected' && CARRIED_OUT[planned.kind] === 'commit';
}

/** Whether a call reads or changes the agent's memory. */
export function isMemoryCall({ kind }: PlannedCall): boolean {
  return kind === 'memory';
}

/** Whether a call goes to a runner of this worker. */
export function isOpen(call: Call): boolean {
  return call.known === null && !isBuiltInCall(call);
}

/** Whether a call is journalled before it runs, because it has side effects. */
export function isJournalled({ planned }: Pick<Call, 'planned'>): boolean {
  return planned.tool !== null && planned.tool.side_effects !== 'none';
}

/** Returns the name of a call for the tool host. It is also its idempotency key, and the same on every attempt. */
export function callKey(runId: string, stepNumber: number, index: number): string {
  return `${stepUuid({ run_id: runId, number: stepNumber, attempt: 0 })}/${index}`;
}

/** Returns the calls in the stored content of an answer. */
export function callsIn(content: string): readonly ToolUseBlock[] {
  const parsed = JSON.parse(fromStorable(content)) as unknown;
  return toolUsesOf(Array.isArray(parsed) ? parsed.filter(isContentBlock) : []);
}

/**
 * Plans the calls of a run's answer, with the known outcome of each from its row.
 * If the caller's answers are incomplete at the deadline, only approved calls are still made.
 */
export function callsOf(run: ActingRun, toolPolicy: ToolPolicy): readonly Call[] {
  const rows = new Map(run.calls.map((row) => [row.call_index, row]));
  const cancelled = isCancelling(run);
  const { history } = run.trail ?? NO_TRAIL;
  const plan = planCalls(callsIn(run.content), toolPolicy, history, validateArguments);
  // A run that still awaits its caller comes here only at its deadline. Undecided calls are no longer made.
  const isPastDeadline = plan.some(({ awaits, index }) => awaits !== null && isUndecided(rows.get(index)));
  return plan.map((planned): Call => {
    const key = callKey(run.run_id, run.step_number, planned.index);
    const row = rows.get(planned.index);
    if (row === undefined) throw new Error(`Call ${key} has no row.`);
    const { state } = row;
    if (state === 'succeeded' || state === 'failed' || state === 'unknown') {
      const outcome = { ok: state === 'succeeded', result: row.held_result ?? '' };
      return { run, planned, key, known: { outcome, state, denied: row.verdict === 'denied' } };
    }
    if (state === 'running' && (cancelled || planned.tool?.side_effects === 'once')) {
      return { run, planned, key, known: { outcome: { ok: false, result: IN_DOUBT }, state: 'unknown' } };
    }
    if (cancelled) {
      return { run, planned, key, known: { outcome: { ok: false, result: NOT_MADE }, state: 'failed' } };
    }
    if (isPastDeadline && isUndecided(row)) {
      return {
        run,
        planned,
        key,
        known: { outcome: { ok: false, result: TOO_LATE }, state: 'failed', denied: true },
      };
    }
    return { run, planned, key, known: null };
  });
}

/** Whether a call has neither begun nor been decided by the caller. */
function isUndecided(row: ActingRun['calls'][number] | undefined): boolean {
  return row?.state === 'pending' && row.verdict === null;
}

/** Converts a call that goes to a runner. Tools see ids as on the wire. */
export function requestOf({
  run,
  planned,
  key,
}: {
  readonly run: Pick<ActingRun, 'run_id' | 'agent_id'>;
  readonly planned: PlannedCall;
  readonly key: string;
}): ToolRequest {
  const { tool } = planned;
  if (tool === null) throw new Error(`Call ${key} has no tool.`);
  return {
    call_id: key,
    kind: tool.kind,
    tool_name: tool.name,
    arguments: planned.args,
    agent_id: toWireId('agent', run.agent_id),
    run_id: toWireId('run', run.run_id),
    tool_use_id: planned.tool_use_id,
    idempotency_key: key,
    side_effects: tool.side_effects,
    timeout_ms: tool.timeout_ms,
    result_char_limit: tool.return_char_limit,
    source: tool.source ?? null,
  };
}

/** Returns the outcome of a tool's call by its reply. */
export function settledBy(
  tool: Pick<ToolDefinition, 'side_effects'> | null,
  reply: Pick<ToolReply, 'status' | 'result' | 'started'>,
): SettledCall {
  if (reply.status === 'succeeded')
    return { outcome: { ok: true, result: reply.result }, state: 'succeeded' };
  // An interrupted call may have taken effect. If it must happen once, "failed" would invite a repeat.
  const doubtful = reply.status !== 'failed' && reply.started && tool?.side_effects === 'once';
  return doubtful
    ? { outcome: { ok: false, result: `${IN_DOUBT} Cause: ${reply.result}` }, state: 'unknown' }
    : { outcome: { ok: false, result: reply.result }, state: 'failed' };
}

/**
 * Returns the result to store on the row of a call; null if nothing is stored and the call is made again.
 * `cutOff`: the calls were aborted by the worker or the tool host is gone. A call that never started, or broke off and may
 * be repeated, is left to the next worker.
 */
export function resultToKeep(call: Call, reply: ToolReply, cutOff: boolean): CallResult | null {
  const row = { run_id: call.run.run_id, step_number: call.run.step_number, call_index: call.planned.index };
  if (cutOff && !reply.started) return { ...row, state: 'pending', held_result: null, duration_ms: 0 };
  if (cutOff && reply.status === 'crashed' && call.planned.tool?.side_effects !== 'once') return null;
  const { outcome, state } = settledBy(call.planned.tool, reply);
  const duration_ms = Math.round(reply.duration_ms);
  return { ...row, state, held_result: outcome.result, duration_ms, output: reply };
}
