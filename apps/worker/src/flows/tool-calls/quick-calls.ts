import {
  NO_TRAIL,
  planCalls,
  toolUsesOf,
  type PlannedCall,
  type StepKey,
  type StepOutcome,
  type ToolUseBlock,
} from '@nightshift/agent-core';
import { readInFlightRuns } from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import { validateArguments } from '../argument-validator.ts';
import type { FlowDeps, ToolReply } from '../deps.ts';
import { callKey, isJournalled, requestOf } from './call.ts';

/** Milliseconds that the calls of one chunk of answers may take together; what is not back by then goes the ordinary way. */
const TRY_TIMEOUT_MS = 1_000;

/** The calls of one answer, and what came of those that were made. */
export interface QuickStep {
  /** What they were planned by; they stand for a run with this definition alone. */
  readonly definition_id: string;
  readonly planned: readonly PlannedCall[];
  /** By index of the call: those that came to an end. */
  readonly replies: Map<number, ToolReply>;
}

interface Answered {
  readonly key: StepKey;
  readonly outcome: StepOutcome;
}

interface QuickCall {
  readonly run: { readonly run_id: string; readonly agent_id: string };
  readonly planned: PlannedCall;
  readonly key: string;
  readonly step: QuickStep;
}

/**
 * Makes calls before the answers that ask for them are committed, so that both are one commit: calls without side effects,
 * of tools that come back at once, where an answer makes no other calls that need somebody (ADR 0023). A crash in between loses nothing, since the provider still has the answer and
 * the call may be made again. Whatever is not tried, fails to end, or comes too late is left to the ordinary way; that of
 * agents with tool rules is, because what they may call depends on what they have called. By run id.
 */
export async function tryQuickCalls(
  deps: FlowDeps,
  lease: HeldLease,
  answers: Iterable<Answered>,
): Promise<ReadonlyMap<string, QuickStep>> {
  const isAsking = (answered: Answered): boolean =>
    usesOf(answered.outcome).some(({ name }) => deps.quickTools.worthTrying(name) > 0);
  const asking = new Map([...answers].filter(isAsking).map((answered) => [answered.key.run_id, answered]));
  const steps = new Map<string, QuickStep>();
  if (asking.size === 0) return steps;
  const runs = await readInFlightRuns(deps.db, [...asking.keys()]);
  const definitions = await deps.definitions.get(
    deps.db,
    runs.map((run) => run.definition_id),
  );
  const calls = runs.flatMap((run): readonly QuickCall[] => {
    const answered = asking.get(run.id);
    const conduct = definitions.get(run.definition_id)?.conduct;
    if (answered === undefined || conduct === undefined || conduct.rules.length > 0) return [];
    const { number, attempt } = answered.key;
    if (run.step_number !== number || run.attempt !== attempt) return [];
    const planned = planCalls(usesOf(answered.outcome), conduct, NO_TRAIL.history, validateArguments);
    // Where a call is left to the ordinary way, the others may as well be.
    if (!planned.every((call) => isPlain(call) || endsHere(call))) return [];
    const step: QuickStep = { definition_id: run.definition_id, planned, replies: new Map() };
    steps.set(run.id, step);
    return planned.filter(isPlain).map((call) => ({
      run: { run_id: run.id, agent_id: run.agent_id },
      planned: call,
      key: callKey(run.id, number, call.index),
      step,
    }));
  });
  const signal = AbortSignal.any([lease.signal, AbortSignal.timeout(TRY_TIMEOUT_MS)]);
  const probes = new Set(probesOf(deps, calls));
  await make(deps, [...probes], signal);
  const isQuick = ({ planned }: QuickCall): boolean =>
    deps.quickTools.worthTrying(planned.tool_name) === Infinity;
  await make(
    deps,
    calls.filter((call) => !probes.has(call) && isQuick(call)),
    signal,
  );
  return steps;
}

/** The first calls of tools that nobody knows yet. */
function probesOf({ quickTools }: FlowDeps, calls: readonly QuickCall[]): readonly QuickCall[] {
  return [...Map.groupBy(calls, ({ planned }) => planned.tool_name)].flatMap(([toolName, own]) => {
    const worth = quickTools.worthTrying(toolName);
    return worth === Infinity ? [] : own.slice(0, worth);
  });
}

async function make(deps: FlowDeps, calls: readonly QuickCall[], signal: AbortSignal): Promise<void> {
  if (calls.length === 0) return;
  // Without a tool host all are left to the ordinary way, which says so.
  const replies = await deps.tools.runCalls(calls.map(requestOf), { signal }).catch(() => []);
  const byKey = new Map(replies.map((reply) => [reply.call_id, reply]));
  for (const { planned, key, step } of calls) {
    const reply = byKey.get(key);
    if (reply === undefined) continue;
    deps.quickTools.observe(planned.tool_name, reply);
    if (reply.status === 'succeeded' || reply.status === 'failed') step.replies.set(planned.index, reply);
  }
}

function usesOf(outcome: StepOutcome): readonly ToolUseBlock[] {
  const isCalling = outcome.kind === 'answered' && outcome.answer.stop_reason === 'tool_use';
  return isCalling ? toolUsesOf(outcome.answer.content) : [];
}

/** A call of the operator's code that may be made twice and that nobody has to be asked for. */
function isPlain(planned: PlannedCall): boolean {
  return planned.kind === 'module' && planned.awaits === null && !isJournalled({ planned });
}

/** A call that is carried out, or refused, in the commit of its answer. */
function endsHere({ kind, awaits }: PlannedCall): boolean {
  return awaits === null && (kind === 'memory' || kind === 'finish' || kind === 'rejected');
}
