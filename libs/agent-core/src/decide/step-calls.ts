import type { BlockChange } from '../model/block-change.ts';
import type { PlannedCall } from '../model/planned-call.ts';
import type { EndedCall, StepMemory } from '../model/tool-call.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { RESULT_TAKEN } from '../tools/finish.ts';
import { capResult } from '../tools/results.ts';

/** A call of a step. */
export interface StepCall {
  readonly planned: PlannedCall;
  /** Null while the call has not ended. */
  readonly outcome: ToolOutcome | null;
  /** Default: derived from its outcome. */
  readonly state?: EndedCall['state'];
  /**
   * The caller denied it, so the tool rules ignore it.
   * Default: false.
   */
  readonly denied?: boolean;
  /** Default 0. */
  readonly duration_ms?: number;
}

/** An ended call of a step. */
export type SettledCall = StepCall & { readonly outcome: ToolOutcome };

/** The memory of a step without memory calls. */
export const NO_MEMORY: StepMemory = {
  carryOut() {
    throw new Error('A memory call was planned for a run whose blocks were not locked.');
  },
};

/** The calls of a step after the calls of built-in tools. */
export interface CarriedOut {
  readonly calls: readonly StepCall[];
  readonly changes: readonly BlockChange[];
}

const NO_CHANGES: readonly BlockChange[] = [];

/**
 * Carries out, in order, the open calls that need no tool host.
 * `isHeldBack`: calls that await the caller stay open; otherwise the caller has approved them.
 */
export function carryOutBuiltIn(
  calls: readonly StepCall[],
  memory: StepMemory,
  isHeldBack: boolean,
): CarriedOut {
  let changes = NO_CHANGES;
  const carriedOut = calls.map((call): StepCall => {
    const { planned } = call;
    if (call.outcome !== null) return call;
    if (planned.kind === 'rejected')
      return { planned, outcome: { ok: false, result: planned.rejection ?? 'The call was rejected.' } };
    if (isHeldBack && planned.awaits !== null) return call;
    if (planned.kind === 'finish') return { planned, outcome: { ok: true, result: RESULT_TAKEN } };
    if (planned.kind !== 'memory') return call;
    const { outcome, changes: made } = memory.carryOut(planned);
    if (made.length > 0) changes = changes.length === 0 ? made : [...changes, ...made];
    const limit = planned.tool?.return_char_limit ?? outcome.result.length;
    return { planned, outcome: { ok: outcome.ok, result: capResult(outcome.result, limit) } };
  });
  return { calls: carriedOut, changes };
}

/** Returns whether every call has ended. */
export function areSettled(calls: readonly StepCall[]): calls is readonly SettledCall[] {
  return calls.every(({ outcome }) => outcome !== null);
}

/** Makes the row of an ended call. */
export function endedCall({ planned, outcome, state, duration_ms = 0 }: SettledCall): EndedCall {
  return { call_index: planned.index, state: state ?? (outcome.ok ? 'succeeded' : 'failed'), duration_ms };
}
