import {
  callsToPlan,
  NO_TRAIL,
  planCalls,
  type PlannedCall,
  type StepCall,
  type StepKey,
  type StepOutcome,
  type ToolUseBlock,
} from '@nightshift/agent-core';
import type { RunToDecide } from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import { validateArguments } from '../../flow-parts/calls/argument-validator.ts';
import { yieldEvery } from '../../yielding.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { callKey, isJournalled, requestOf } from '../../flow-parts/calls/call.ts';
import type { ToolReply } from '../../tools/runner.ts';

/** Calls in progress at a time. */
const WAVE_CALLS = 250;
/** Result characters of a chunk from which no more calls are made, because all go into one commit. */
const RESULT_CHARS_MAX = 4_000_000;

/** The quick calls of one answer. */
export interface QuickStep {
  /** The definition of the plan, which is valid only for a run with this definition. */
  readonly definition_id: string;
  /** The planned calls, each with its outcome if it has ended. */
  readonly calls: StepCall[];
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
  /** Index among the calls of the step. */
  readonly place: number;
}

/**
 * Makes quick calls before their answers are committed, so that both are one commit (ADR 0023). Returned by run id.
 * Quick calls have no side effects and belong to fast tools, in answers without a call that awaits a caller. A crash loses
 * nothing: the provider still has the answer, and the calls may be repeated. All other calls, and late calls, go the
 * ordinary way. So do calls of agents with tool rules, because later calls depend on earlier calls.
 */
export async function tryQuickCalls(
  deps: FlowDeps,
  lease: HeldLease,
  answers: Iterable<Answered>,
  runs: ReadonlyMap<string, RunToDecide>,
): Promise<ReadonlyMap<string, QuickStep>> {
  const { quickTools } = deps;
  const isWorthTrying = ({ name }: ToolUseBlock): boolean => quickTools.worthTrying(name) > 0;
  const asking = new Map<string, readonly ToolUseBlock[]>();
  for (const { key, outcome } of answers) {
    const run = runs.get(key.run_id);
    const uses = run === undefined ? [] : callsToPlan(run, key, outcome);
    if (uses.some(isWorthTrying)) asking.set(key.run_id, uses);
  }
  const steps = new Map<string, QuickStep>();
  if (asking.size === 0 || lease.signal.aborted) return steps;
  const calls = await planQuickCalls(deps, asking, runs, steps);
  if (calls.length === 0) return steps;
  const signal = AbortSignal.any([lease.signal, AbortSignal.timeout(quickTools.chunk_ms_max)]);
  const probes = probesOf(deps, calls);
  let chars = await make(deps, probes, signal);
  const probed = new Set(probes);
  const rest = calls.filter(
    (call) => !probed.has(call) && quickTools.worthTrying(call.planned.tool_name) === Infinity,
  );
  for (let from = 0; from < rest.length && chars < RESULT_CHARS_MAX; from += WAVE_CALLS) {
    if (signal.aborted) break;
    chars += await make(deps, rest.slice(from, from + WAVE_CALLS), signal);
  }
  return steps;
}

/**
 * Plans the calls worth trying, and adds the plans of their steps to `steps`.
 * Yields between checks of arguments, which may take long, so that the lease is renewed.
 */
async function planQuickCalls(
  deps: FlowDeps,
  asking: ReadonlyMap<string, readonly ToolUseBlock[]>,
  runs: ReadonlyMap<string, RunToDecide>,
  steps: Map<string, QuickStep>,
): Promise<readonly QuickCall[]> {
  const { quickTools } = deps;
  await deps.grantKeeper.refresh();
  const definitions = await deps.definitions.get(
    deps.db,
    [...runs.values()].map((run) => run.definition_id),
  );
  const endsWithAnswer = (call: PlannedCall): boolean =>
    endsInCommit(call) ||
    (isPlain(call) && isShared(deps, call) && quickTools.worthTrying(call.tool_name) > 0);
  const calls: QuickCall[] = [];
  const yieldIfDue = yieldEvery();
  for (const run of runs.values()) {
    await yieldIfDue();
    const { id: run_id, agent_id, definition_id, step_number } = run;
    const uses = asking.get(run_id);
    if (uses === undefined) continue;
    const toolPolicy = definitions.get(definition_id)?.toolPolicy;
    if (toolPolicy === undefined || toolPolicy.rules.length > 0) continue;
    const planned = planCalls(uses, toolPolicy, NO_TRAIL.history, validateArguments);
    for (const { tool, tool_name } of planned) if (tool?.kind !== 'module') quickTools.skip(tool_name);
    // If one call goes the ordinary way, the others may as well.
    if (!planned.every(endsWithAnswer)) continue;
    const step = {
      definition_id,
      calls: planned.map((call): StepCall => ({ planned: call, outcome: null })),
    };
    steps.set(run_id, step);
    for (const [place, call] of planned.entries()) {
      if (isPlain(call))
        calls.push({
          run: { run_id, agent_id },
          planned: call,
          key: callKey(run_id, step_number, call.index),
          step,
          place,
        });
    }
  }
  return calls;
}

/** Returns the first calls of unknown tools. */
function probesOf({ quickTools }: FlowDeps, calls: readonly QuickCall[]): readonly QuickCall[] {
  return [...Map.groupBy(calls, ({ planned }) => planned.tool_name)].flatMap(([toolName, own]) => {
    const worth = quickTools.worthTrying(toolName);
    return worth === Infinity ? [] : own.slice(0, worth);
  });
}

/** Makes calls and keeps the replies that arrive before the signal. Returns the total length of their results. */
async function make(deps: FlowDeps, calls: readonly QuickCall[], signal: AbortSignal): Promise<number> {
  if (calls.length === 0) return 0;
  const { chunk_ms_max } = deps.quickTools;
  const requests = calls.map((call) => {
    const request = requestOf(call);
    return { ...request, timeout_ms: Math.min(request.timeout_ms, chunk_ms_max) };
  });
  const byKey = new Map(calls.map((call) => [call.key, call]));
  const arrived: ToolReply[] = [];
  const replying = Promise.all(
    requests.map(async (request) => {
      const reply = await deps.tools.run(request, { signal });
      arrived.push(reply);
      // Late replies still tell the duration of such calls.
      deps.quickTools.observe(request.tool_name, reply);
    }),
  );
  await Promise.race([replying, whenAborted(signal)]);
  let chars = 0;
  for (const reply of arrived) {
    const call = byKey.get(reply.call_id);
    // Without its host a call goes the ordinary way, which reports it.
    if (call === undefined || reply.unavailable === true) continue;
    if (reply.status !== 'succeeded' && reply.status !== 'failed') continue;
    const { status, result, duration_ms } = reply;
    call.step.calls[call.place] = {
      planned: call.planned,
      outcome: { ok: status === 'succeeded', result },
      duration_ms: Math.round(duration_ms),
    };
    chars += result.length;
  }
  return chars;
}

/** Resolves when the signal fires. */
function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Whether the tool has no bound of its own and no limit over all workers, which only the places of calls keep. */
function isShared({ tools }: FlowDeps, { tool_name }: PlannedCall): boolean {
  return tools.poolOf('module', tool_name).reserve > 0 && !tools.places.grants.isLimited(tool_name);
}

/** Whether a call is operator's code that may be repeated and awaits no caller. */
function isPlain(planned: PlannedCall): boolean {
  return planned.kind === 'module' && planned.awaits === null && !isJournalled({ planned });
}

/** Whether a call is carried out or refused in the commit of its answer. */
function endsInCommit({ kind, awaits }: PlannedCall): boolean {
  return awaits === null && (kind === 'memory' || kind === 'finish' || kind === 'rejected');
}
