import {
  callsToPlan,
  decideStep,
  needsTokens,
  NO_TOOL_POLICY,
  NO_TRAIL,
  planCalls,
  type PlannedCall,
  type StepCall,
  type StepKey,
  type StepOutcome,
  type ToolPolicy,
} from '@nightshift/agent-core';
import {
  readBatchStates,
  readLimitedSteps,
  readStepsAtLimit,
  type DecidedRun,
  type RunToDecide,
  type Tx,
} from '@nightshift/db';
import { validateArguments } from '../../flow-parts/calls/argument-validator.ts';
import { isMemoryCall } from '../../flow-parts/calls/call.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { openChunkMemory } from '../../flow-parts/memory/chunk-memory.ts';
import { outputMaxima } from '../../flow-parts/requests/output-maxima.ts';
import { withPriceOf } from '../../flow-parts/results/price-outcome.ts';
import type { Entry } from '../../flow-parts/results/sort-result-lines.ts';
import type { QuickStep } from './quick-calls.ts';

/** A step answered by a line, with the facts for its decision. */
interface DueStep {
  readonly run: RunToDecide;
  readonly key: StepKey;
  readonly outcome: StepOutcome;
  readonly toolPolicy: ToolPolicy;
  readonly calls: readonly StepCall[];
}

/** Decides every line of the chunk in run order, with the locked blocks that memory calls may write. */
export async function decideChunk(
  deps: FlowDeps,
  trx: Tx,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  quick: ReadonlyMap<string, QuickStep>,
): Promise<readonly DecidedRun[]> {
  const due = await planSteps(deps, trx, entries, runs, quick);
  const memoryOf = await openChunkMemory(trx, due.filter(isRemembering).map(memoryCallsOf));
  const { retry } = deps.settings;
  return due.flatMap(({ run, key, outcome, toolPolicy, calls }): readonly DecidedRun[] => {
    const ofRun = calls.length === 0 ? undefined : memoryOf(run, toolPolicy);
    const decision = decideStep({ run, key, retry, toolPolicy, calls }, outcome, ofRun);
    return decision.kind === 'refuse' ? [] : [{ run, decision }];
  });
}

/** Plans the calls of every answer of the chunk in run order. */
async function planSteps(
  deps: FlowDeps,
  trx: Tx,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  quick: ReadonlyMap<string, QuickStep>,
): Promise<readonly DueStep[]> {
  const definitions = await deps.definitions.get(
    trx,
    [...runs.values()].map((run) => run.definition_id),
  );
  const atLimit = await readStepsAtLimit(
    trx,
    [...entries.values()]
      .filter(({ key, outcome }) => needsTokens(outcome, runs.get(key.run_id)?.summarises_to_seq != null))
      .map(({ key }) => key),
    outputMaxima(deps.settings.prices),
  );
  const limited = await readLimitedSteps(
    trx,
    [...entries.values()]
      .filter(({ key, outcome }) => runs.get(key.run_id)?.budgeted === true && isCutOff(outcome))
      .map(({ key }) => key),
  );
  // A batch may have been cancelled while calls were made.
  const states = await readBatchStates(trx, [...new Set([...runs.values()].map((run) => run.batch_id))]);
  const due: DueStep[] = [];
  for (const read of runs.values()) {
    const entry = entries.get(read.id);
    if (entry === undefined) continue;
    const { key } = entry;
    const batch_state = states.get(read.batch_id) ?? read.batch_state;
    const is_at_token_limit = atLimit.has(read.id);
    const is_answer_limited = limited.has(read.id);
    const isAsRead = batch_state === read.batch_state && !is_at_token_limit && !is_answer_limited;
    const run = isAsRead ? read : { ...read, batch_state, is_at_token_limit, is_answer_limited };
    const cached = definitions.get(run.definition_id);
    const toolPolicy = cached?.toolPolicy ?? NO_TOOL_POLICY;
    const outcome = withPriceOf(entry.outcome, cached, deps.settings.prices);
    due.push({ run, key, outcome, toolPolicy, calls: callsOf(run, key, outcome, toolPolicy, quick) });
  }
  return due;
}

/** Whether the answer ends at its limit of tokens. */
function isCutOff(outcome: StepOutcome): boolean {
  return outcome.kind === 'answered' && outcome.answer.stop_reason === 'max_tokens';
}

const NO_CALLS: readonly StepCall[] = [];

/** Returns the calls of an answer, with the outcome of calls that were made already. */
function callsOf(
  run: RunToDecide,
  key: StepKey,
  outcome: StepOutcome,
  toolPolicy: ToolPolicy,
  quick: ReadonlyMap<string, QuickStep>,
): readonly StepCall[] {
  const uses = callsToPlan(run, key, outcome);
  if (uses.length === 0) return NO_CALLS;
  const tried = quick.get(run.id);
  if (tried?.definition_id === run.definition_id) return tried.calls;
  const { history } = run.trail ?? NO_TRAIL;
  return planCalls(uses, toolPolicy, history, validateArguments).map((planned) => ({
    planned,
    outcome: null,
  }));
}

function isRemembering({ calls }: DueStep): boolean {
  return calls.some(({ planned }) => isMemoryCallNow(planned));
}

function memoryCallsOf({ run, calls }: DueStep) {
  return { run, calls: calls.map(({ planned }) => planned).filter(isMemoryCallNow) };
}

/** Whether a call is carried out with its decision, on the agent's memory. */
function isMemoryCallNow(call: PlannedCall): boolean {
  return isMemoryCall(call) && call.awaits === null;
}
