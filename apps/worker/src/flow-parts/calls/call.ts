import {
  fromStorable,
  isContentBlock,
  NO_TRAIL,
  planCalls,
  stepUuid,
  toolUsesOf,
  toWireId,
  type ToolPolicy,
  type PlannedCall,
  type ToolOutcome,
  type ToolUseBlock,
} from '@nightshift/agent-core';
import type { ActingRun, CallResult } from '@nightshift/db';
import { validateArguments } from './argument-validator.ts';
import type { ToolReply, ToolRequest } from '../deps.ts';

/** What a call came to, and what the model is told. */
export interface SettledCall {
  readonly outcome: ToolOutcome;
  readonly state: 'succeeded' | 'failed' | 'unknown';
  /** The caller did not let it happen. */
  readonly denied?: boolean;
}

/** What a call of a chunk is to get, or has got. */
export interface Call {
  readonly run: ActingRun;
  readonly planned: PlannedCall;
  readonly key: string;
  /** Known before the tool host is asked: held on its row, in doubt after a crash, or not to be made any more. */
  readonly known: SettledCall | null;
}

const IN_DOUBT =
  'This call was interrupted and may or may not have taken effect. It was not run again; check before repeating it.';
/** What is said of a call that the caller did not answer in time, and of those that waited for that beside it. */
const TOO_LATE = 'The run passed its deadline before the caller answered; the call was not made.';
/** What the model is told of a call that a cancellation came before. */
export const NOT_MADE = 'The batch was cancelled before this call was made.';

/** Calls of built-in tools are carried out in the commit of the results; here they come from approvals alone. */
export function isBuiltInCall({ planned }: Call): boolean {
  return planned.kind === 'memory' || planned.kind === 'finish';
}

/** Calls with side effects are journalled before they run. */
export function isJournalled({ planned }: Pick<Call, 'planned'>): boolean {
  return planned.tool !== null && planned.tool.side_effects !== 'none';
}

/** The name of a call for the tool host, and its idempotency key: the same however often it is made. */
export function callKey(runId: string, stepNumber: number, index: number): string {
  return `${stepUuid({ run_id: runId, number: stepNumber, attempt: 0 })}/${index}`;
}

/** The calls in the stored content of an answer. */
export function callsIn(content: string): readonly ToolUseBlock[] {
  const parsed = JSON.parse(fromStorable(content)) as unknown;
  return toolUsesOf(Array.isArray(parsed) ? parsed.filter(isContentBlock) : []);
}

/**
 * The calls of a run as its answer makes them, with what is known of each from its row. Where the caller's answers are not
 * complete by the deadline, only what was approved is still to be made.
 */
export function callsOf(run: ActingRun, toolPolicy: ToolPolicy): readonly Call[] {
  const rows = new Map(run.calls.map((row) => [row.call_index, row]));
  const cancelled = run.batch_state === 'cancelling' || run.batch_state === 'cancelled';
  const { history } = run.trail ?? NO_TRAIL;
  const plan = planCalls(callsIn(run.content), toolPolicy, history, validateArguments);
  // Only its deadline sends a run here that still awaits its caller: what nobody decided about is not to happen any more.
  const isLetGo = plan.some(({ awaits, index }) => awaits !== null && isUndecided(rows.get(index)));
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
    if (isLetGo && isUndecided(row)) {
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

/** Whether a call neither has begun nor was decided about by the caller. */
function isUndecided(row: ActingRun['calls'][number] | undefined): boolean {
  return row?.state === 'pending' && row.verdict === null;
}

/** A call as the tool host takes it; tools are told the ids that the API has. */
export function requestOf({
  run,
  planned,
  key,
}: {
  readonly run: Pick<ActingRun, 'run_id' | 'agent_id'>;
  readonly planned: PlannedCall;
  readonly key: string;
}): ToolRequest {
  return {
    call_id: key,
    tool_name: planned.tool_name,
    arguments: planned.args,
    agent_id: toWireId('agent', run.agent_id),
    run_id: toWireId('run', run.run_id),
    tool_use_id: planned.tool_use_id,
    idempotency_key: key,
    timeout_ms: planned.tool?.timeout_ms ?? 30_000,
    result_char_limit: planned.tool?.return_char_limit ?? 50_000,
  };
}

/** What a reply says of its call. */
export function settledBy(call: Call, reply: ToolReply): SettledCall {
  if (reply.status === 'succeeded')
    return { outcome: { ok: true, result: reply.result }, state: 'succeeded' };
  // A call that broke off may have happened; saying "failed" of one that must happen once would invite a repeat.
  const doubtful = reply.status !== 'failed' && reply.started && call.planned.tool?.side_effects === 'once';
  return doubtful
    ? { outcome: { ok: false, result: `${IN_DOUBT} Cause: ${reply.result}` }, state: 'unknown' }
    : { outcome: { ok: false, result: reply.result }, state: 'failed' };
}

/**
 * What is to be kept of a reply on the row of its call; null when there is nothing to keep and the call is to be made
 * again. `cutOff`: the calls were given up by us or the tool host went, so that one that was not entered, or that broke
 * off and may be repeated, is left to the next worker.
 */
export function resultToKeep(call: Call, reply: ToolReply, cutOff: boolean): CallResult | null {
  const row = { run_id: call.run.run_id, step_number: call.run.step_number, call_index: call.planned.index };
  if (cutOff && !reply.started) return { ...row, state: 'pending', held_result: null, duration_ms: 0 };
  if (cutOff && reply.status === 'crashed' && call.planned.tool?.side_effects !== 'once') return null;
  const { outcome, state } = settledBy(call, reply);
  return { ...row, state, held_result: outcome.result, duration_ms: Math.round(reply.duration_ms) };
}
