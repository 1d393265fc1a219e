import {
  fromStorable,
  type ContentBlock,
  type PriceTable,
  type ResultFormat,
  type ToolChoice,
} from '@nightshift/agent-core';
import {
  commitPortion,
  distinctDefinitions,
  noteRetriedRuns,
  placeRuns,
  readAgentFormats,
  readFrozenDefinitions,
  readRunAgents,
  readRunsToRetry,
  requestedDefinitions,
  type AgentFormat,
  type FrozenDefinition,
  type NewRun,
  type ReceivingBatch,
  type RequestedDefinition,
  type RunAgent,
  type RunToRetry,
  type Tx,
} from '@nightshift/db';
import type { SkipReason } from '../fleet/plan-agent.ts';
import { skipReasonOf } from '../fleet/read-fleet-plans.ts';
import type { RetrySource } from './request.ts';

/** Why a run is not tried again. */
type RetrySkip = SkipReason | 'no_input';

/**
 * Makes the next runs of a batch that tries runs again; null after the last. The caller holds the batch.
 * Locks: agents and conversations in id order.
 */
export async function acceptRetries(
  trx: Tx,
  batch: ReceivingBatch,
  source: RetrySource,
  { prices, limit }: { readonly prices: PriceTable; readonly limit: number },
): Promise<{ readonly agents: number; readonly runs: number } | null> {
  for (;;) {
    const retried = await readRunsToRetry(trx, batch.id, batch.agents_taken, limit);
    const last = retried.at(-1);
    if (last === undefined) return null;
    const planned = await planRetries(trx, batch, source, retried, prices);
    const placed = await placeRuns(
      trx,
      batch.project_id,
      planned.made.map(({ run }) => run),
      planned.made.map(({ request }) => request),
      planned.made.map(({ agent }) => agent),
      { runs: batch.accepted, last_run_id: batch.last_run_id },
    );
    // An agent was changed or deleted meanwhile.
    if (placed === null) continue;
    const agents = last.ordinal + 1 - batch.agents_taken;
    const skipped = [...planned.skipped].map(([ordinal, reason]) => ({ ordinal, reason }));
    await commitPortion(trx, batch, {
      ...{ agents, deadline: source.deadline, placed, skipped },
      table: 'batch_retry_run',
    });
    await noteRetriedRuns(
      trx,
      batch.id,
      placed.plan.flatMap(({ id }, index) => {
        const ordinal = planned.made[index]?.ordinal;
        return ordinal === undefined ? [] : [{ ordinal, retry_run_id: id }];
      }),
    );
    return { agents, runs: placed.plan.length };
  }
}

/** A run to make. */
interface MadeRun {
  readonly ordinal: number;
  readonly run: NewRun;
  readonly request: RequestedDefinition;
  readonly agent: RunAgent;
}

/** The additions of a run to its agent. */
type Additions = Pick<NewRun, 'client_tools' | 'tools' | 'result_format'>;

interface PlannedRetries {
  readonly made: readonly MadeRun[];
  /** Reasons by ordinal. */
  readonly skipped: ReadonlyMap<number, RetrySkip>;
}

async function planRetries(
  trx: Tx,
  batch: ReceivingBatch,
  source: RetrySource,
  retried: readonly RunToRetry[],
  prices: PriceTable,
): Promise<PlannedRetries> {
  const frozen = await readFrozenDefinitions(trx, [...new Set(retried.map((run) => run.definition_id))]);
  const formats =
    source.definitions === 'current'
      ? await readAgentFormats(trx, [...new Set(retried.map((run) => run.agent_id))])
      : null;
  const additions = new Map<string, Additions>();
  const runs = retried.map((run) => {
    const added = formats === null ? {} : addedTo(additions, run, frozen, formats);
    return toNewRun(run, { ...added, model: formats === null ? null : source.model });
  });
  const requests = requestedDefinitions(runs);
  const current =
    formats === null ? null : await readRunAgents(trx, batch.project_id, distinctDefinitions(requests));
  const made: MadeRun[] = [];
  const skipped = new Map<number, RetrySkip>();
  for (const [index, given] of retried.entries()) {
    const run = runs[index];
    const request = requests[index];
    if (run === undefined || request === undefined) continue;
    const agent = given.is_agent_deleted
      ? undefined
      : current === null
        ? frozenAgent(given, frozen)
        : current.get(request.key);
    const hasInput = given.is_agent_deleted || run.messages.length > 0;
    const reason = hasInput ? skipReasonOf(run, agent, batch, prices) : 'no_input';
    if (reason !== null || agent === undefined) skipped.set(given.ordinal, reason ?? 'agent_deleted');
    else made.push({ ordinal: given.ordinal, run, request, agent });
  }
  return { made, skipped };
}

function toNewRun(run: RunToRetry, added: Partial<NewRun>): NewRun {
  return {
    ...added,
    agent_id: run.agent_id,
    custom_id: run.custom_id,
    max_steps: run.max_steps,
    isolated: run.isolated,
    messages: (run.messages ?? []).map(({ content, ...message }) => ({
      ...message,
      content: JSON.parse(fromStorable(content)) as readonly ContentBlock[],
    })),
    cap: { cost_nanousd: run.max_cost_nanousd, output_tokens: run.max_output_tokens },
  };
}

/**
 * Returns the additions of a failed run to its agent as it is now: its client tools, its choice of
 * tools, and its result format unless the agent
 * has one. Runs with equal additions share them.
 */
function addedTo(
  known: Map<string, Additions>,
  { definition_id, agent_id }: RunToRetry,
  frozen: ReadonlyMap<string, FrozenDefinition>,
  formats: ReadonlyMap<string, AgentFormat>,
): Additions {
  const key = `${definition_id} ${agent_id}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const definition = frozen.get(definition_id);
  const agent = formats.get(agent_id);
  const tools = definition?.tool_choice ?? null;
  const names = new Set(agent?.tool_names.filter((name) => isKept(name, tools)));
  const result_format: ResultFormat | null =
    agent?.result_format == null ? (definition?.result_format ?? null) : null;
  const added = {
    tools,
    client_tools: (definition?.tools ?? []).filter(({ kind, name }) => kind === 'client' && !names.has(name)),
    result_format,
  };
  known.set(key, added);
  return added;
}

function isKept(name: string, choice: ToolChoice | null): boolean {
  return choice === null || (!choice.remove.includes(name) && choice.only?.includes(name) !== false);
}

/** Returns the agent of a run with the definition that is frozen in the run. */
function frozenAgent(
  { conversation_id, definition_id }: RunToRetry,
  frozen: ReadonlyMap<string, FrozenDefinition>,
): RunAgent | undefined {
  const definition = frozen.get(definition_id);
  if (definition === undefined) return undefined;
  const { model, context_window_limit } = definition;
  return { conversation_id, definition_id, is_stored: true, model, context_window_limit, doubts: null };
}
