import { isRunEnded } from '../machine/run.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { capResult } from '../tools/results.ts';
import type { RunFacts } from './decision.ts';

/** A call that awaits or awaited the caller. */
export interface AwaitedCall {
  readonly tool_name: string;
  readonly awaits: 'approval' | 'answer';
  /** Hash of the accepted answer; null without an answer. */
  readonly answer_sha256: string | null;
  /** Whether it belongs to the run's present step. */
  readonly is_present: boolean;
  /**
   * Length to which a result is cut.
   * Unit: characters.
   */
  readonly return_char_limit: number;
}

/** A caller's answer to a call. */
export type CallerAnswer =
  | { readonly kind: 'approve' }
  | { readonly kind: 'deny'; readonly reason: string | null }
  | { readonly kind: 'result'; readonly outcome: ToolOutcome };

/** Effect of an accepted answer. `result` is null where the call is still to be carried out. */
export interface TakenAnswer {
  readonly verdict: 'approved' | 'denied' | 'answered';
  readonly state: 'pending' | 'succeeded' | 'failed';
  readonly result: string | null;
}

/**
 * Decides about a caller's answer: accept it, `repeat` for an answer accepted before, or refuse it with the reason.
 * The first answer stands, as the run may have continued with it. After the deadline none is accepted, even before the
 * run is ended.
 */
export function decideCallerAnswer(
  run: Pick<RunFacts, 'state' | 'is_overdue'>,
  call: AwaitedCall,
  answer: CallerAnswer,
  sha256: string,
):
  | { readonly kind: 'take'; readonly taken: TakenAnswer }
  | { readonly kind: 'repeat' }
  | { readonly kind: 'refuse'; readonly problem: 'misfit' | 'conflict'; readonly message: string } {
  const { tool_name, awaits, answer_sha256 } = call;
  const refuse = (problem: 'misfit' | 'conflict', message: string) =>
    ({ kind: 'refuse', problem, message }) as const;
  if (answer_sha256 === sha256) return { kind: 'repeat' };
  if (answer_sha256 !== null)
    return refuse('conflict', `The call of '${tool_name}' has been answered otherwise before.`);
  const isAwaited = run.state === 'requires_action' && call.is_present;
  if (!isAwaited || run.is_overdue === true) {
    const why = isAwaited
      ? 'has passed its deadline'
      : isRunEnded(run.state)
        ? 'has ended'
        : 'is being ended';
    return refuse('conflict', `The call of '${tool_name}' awaits no answer any more: its run ${why}.`);
  }
  if (answer.kind === 'deny') {
    const reason = answer.reason?.trim() ?? '';
    const result = `The caller denied this call; it was not carried out.${reason === '' ? '' : ` Reason: ${reason}`}`;
    return { kind: 'take', taken: { verdict: 'denied', state: 'failed', result } };
  }
  if (answer.kind === 'approve') {
    return awaits === 'approval'
      ? { kind: 'take', taken: { verdict: 'approved', state: 'pending', result: null } }
      : refuse('misfit', `'${tool_name}' is the caller's own tool: send its result, or deny the call.`);
  }
  if (awaits === 'approval') {
    return refuse('misfit', `'${tool_name}' is carried out here: approve or deny the call.`);
  }
  const { ok, result } = answer.outcome;
  const capped = capResult(result, call.return_char_limit);
  return { kind: 'take', taken: { verdict: 'answered', state: ok ? 'succeeded' : 'failed', result: capped } };
}
