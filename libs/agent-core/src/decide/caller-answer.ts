import { isRunEnded } from '../machine/run.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { capResult } from '../tools/results.ts';
import type { RunFacts } from './decision.ts';

/** A call that awaits the caller, or did. */
export interface AwaitedCall {
  readonly tool_name: string;
  readonly awaits: 'approval' | 'answer';
  /** Says what the answer was that was taken; null while there is none. */
  readonly answer_sha256: string | null;
  /** Whether it is a call of the run's present step. */
  readonly is_present: boolean;
  /** Characters of a result beyond which it is cut. */
  readonly return_char_limit: number;
}

/** What a caller says of a call. */
export type CallerAnswer =
  | { readonly kind: 'approve' }
  | { readonly kind: 'deny'; readonly reason: string | null }
  | { readonly kind: 'result'; readonly outcome: ToolOutcome };

/** What an answer does to its call. `result` is null where the call is still to be carried out. */
export interface TakenAnswer {
  readonly verdict: 'approved' | 'denied' | 'answered';
  readonly state: 'pending' | 'succeeded' | 'failed';
  readonly result: string | null;
}

/**
 * What to do with a caller's answer: take it; `repeat` for one that was taken before, which changes nothing; or why it
 * cannot be. The first answer stands: nobody can take back what a run has gone on with. After the deadline none is taken, whether or
 * not the run has been ended yet.
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
