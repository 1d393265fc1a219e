import {
  billingOf,
  ISSUES_MAX,
  modelPrice,
  NightshiftError,
  parseModelHandle,
  sizeBeyondWindow,
  type Cap,
  type ErrorCode,
  type FieldError,
  type PriceTable,
  type ToolChoice,
} from '@nightshift/agent-core';
import type { RequestedDefinition, NewRun, RunAgent } from '@nightshift/db';
import { findMisfit } from './find-misfit.ts';

/** The part of a batch that is checked. */
export interface PlannableBatch {
  /** ISO time. */
  readonly deadline?: string | null;
  readonly cap?: Cap;
  /** In request order. */
  readonly runs: readonly NewRun[];
  /** Pointer to the fields shared by all runs, such as `/template`; null when each request has its own. */
  readonly shared_path: string | null;
  /** The choice of the batch; runs that share it have the same lists. Default: none. */
  readonly tools?: ToolChoice | null;
  /** Pointers of an upload. Default: those of a JSON body. */
  readonly places?: BatchPlaces;
}

/** Pointers for errors. */
export interface BatchPlaces {
  /** The fields of the batch. */
  readonly batch: string;
  /** The request, or the input of a template, of a run. */
  readonly runOf: (index: number) => string;
}

/** The rows and settings that a plan depends on. */
export interface BatchFacts {
  /** The database's time. */
  readonly now: Date;
  /** Requested definitions, in run order. */
  readonly requested: readonly RequestedDefinition[];
  /** Existing agents, by the key of their requested definition. */
  readonly agents: ReadonlyMap<string, RunAgent>;
  readonly prices: PriceTable;
  /** Names of the stored tools, at least of those that the runs name. */
  readonly tools: ReadonlySet<string>;
}

/** The reason why a batch is not accepted. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  /** Invalid fields with their JSON pointers, at most a hundred. */
  readonly fields: readonly FieldError[];
  /** Number of invalid fields. Default: all that are named. */
  readonly fields_total?: number;
}

/** A batch that can be accepted, or its refusal. */
export type BatchPlan =
  | { readonly kind: 'plan'; readonly agents: readonly RunAgent[] }
  | { readonly kind: 'refusal'; readonly refusal: Refusal };

/** Checks a batch against the facts: deadlines, agents, tools, tool rules, lengths of messages, and prices for its caps, in this order. */
export function planBatch(batch: PlannableBatch, facts: BatchFacts): BatchPlan {
  const refusal =
    refusePassedDeadlines(batch, facts.now) ??
    refuseUnknownAgents(batch, facts.requested, facts.agents) ??
    refuseUnknownTools(batch, facts.tools) ??
    refuseUnfitAgents(batch, facts) ??
    refuseLongMessages(batch, facts) ??
    refuseUnpricedCaps(batch, facts);
  if (refusal !== null) return { kind: 'refusal', refusal };
  return { kind: 'plan', agents: agentsOf(facts) };
}

/** Converts a refusal to an error of the catalogue. */
export function toError({ code, message, ...fields }: Refusal): NightshiftError {
  return new NightshiftError(code, message, fields);
}

/** Refuses deadlines that have passed by `now`. */
export function refusePassedDeadlines(batch: PlannableBatch, now: Date): Refusal | null {
  const hasPassed = (deadline: string | null | undefined): boolean =>
    deadline != null && Date.parse(deadline) <= now.getTime();
  const paths = hasPassed(batch.deadline) ? [`${batch.places?.batch ?? ''}/deadline`] : [];
  for (const [index, { deadline }] of ownRuns(batch).entries())
    if (hasPassed(deadline)) paths.push(`${pathOf(batch, index)}/deadline`);
  const [first] = paths;
  if (first === undefined) return null;
  const message = `has passed: the database's clock says ${now.toISOString()}`;
  return {
    code: 'validation_failed',
    message: `${first} ${message}. Nothing was stored.`,
    fields: paths.slice(0, ISSUES_MAX).map((path) => ({ path, message })),
    fields_total: paths.length,
  };
}

/** Refuses agents whose key is not among the `known`. */
export function refuseUnknownAgents(
  batch: PlannableBatch,
  requested: readonly RequestedDefinition[],
  known: { has(key: string): boolean },
): Refusal | null {
  const named = batch.shared_path === null ? requested : requested.slice(0, 1);
  const fields: FieldError[] = [];
  for (const [index, { agent_id, key }] of named.entries()) {
    if (known.has(key)) continue;
    fields.push({
      path: `${pathOf(batch, index)}/agent_id`,
      message: `There is no agent agent-${agent_id}.`,
    });
  }
  const [first] = fields;
  if (first === undefined) return null;
  const rest = fields.length === 1 ? '' : ` ${fields.length - 1} more are unknown.`;
  return {
    code: 'not_found',
    message: `${first.message}${rest} Nothing was stored.`,
    fields: fields.slice(0, ISSUES_MAX),
    fields_total: fields.length,
  };
}

/** Refuses names of tools that are not stored, among the choices of runs. */
export function refuseUnknownTools(
  batch: Omit<PlannableBatch, 'runs'> & { readonly runs: readonly Pick<NewRun, 'tools'>[] },
  known: ReadonlySet<string>,
): Refusal | null {
  const fields: FieldError[] = [];
  let total = 0;
  const checked = new Set<ToolChoice['add']>();
  for (const [index, { tools }] of ownRuns(batch).entries()) {
    if (tools == null || checked.has(tools.add)) continue;
    checked.add(tools.add);
    const path = tools.add === batch.tools?.add ? (batch.places?.batch ?? '') : pathOf(batch, index);
    for (const list of ['add', 'remove', 'only'] as const)
      for (const [place, name] of (tools[list] ?? []).entries()) {
        // A body may hold millions of names.
        if (known.has(name) || ++total > ISSUES_MAX) continue;
        fields.push({
          path: `${path}/tools/${list}/${place}`,
          message: `there is no tool named '${name}'; GET /v1/tools/ lists all tools`,
        });
      }
  }
  const [first] = fields;
  if (first === undefined) return null;
  return {
    code: 'validation_failed',
    message: `${first.path}: ${first.message}. Nothing was stored.`,
    fields,
    fields_total: total,
  };
}

function refuseUnfitAgents(batch: PlannableBatch, facts: BatchFacts): Refusal | null {
  const checked = new Set<string>();
  for (const [index, agent] of agentsOf(facts).entries()) {
    if (agent.doubts === null) continue;
    // Another choice may lead to the same definition.
    const key = `${agent.definition_id} ${facts.requested[index]?.added.place ?? ''}`;
    if (checked.has(key)) continue;
    checked.add(key);
    const refusal = refuseUnfit(batch, index, batch.runs[index] ?? {}, agent.doubts);
    if (refusal !== null) return refusal;
  }
  return null;
}

/**
 * Refuses the run at `index` if its tools do not fit: its choice names a tool that is not there, its tool rules are unusable,
 * or a client tool has the name of another tool.
 */
export function refuseUnfit(
  batch: Pick<PlannableBatch, 'shared_path' | 'places' | 'tools'>,
  index: number,
  { tools: choice = null }: Pick<NewRun, 'tools'>,
  definition: NonNullable<RunAgent['doubts']>,
): Refusal | null {
  const misfit = findMisfit(definition, choice, batch.tools ?? null);
  if (misfit === null) return null;
  const field = { path: pathOf(batch, index) + misfit.path, message: misfit.message };
  return {
    code: 'validation_failed',
    message: `${field.path} ${field.message} Nothing was stored.`,
    fields: [field],
  };
}

/**
 * Refuses messages that fit no request, however many bytes a token has. A run with such a message would only end with
 * `context_overflow`.
 */
function refuseLongMessages(batch: PlannableBatch, facts: BatchFacts): Refusal | null {
  const agents = agentsOf(facts);
  const fields: FieldError[] = [];
  for (const [index, { agent_id, messages }] of batch.runs.entries()) {
    const window = agents[index]?.context_window_limit ?? Infinity;
    for (const { content } of messages) {
      const size = sizeBeyondWindow(content, window);
      if (size === null) continue;
      const path = batch.shared_path === null ? pathOf(batch, index) : `${inputOf(batch, index)}/variables`;
      const message =
        `has a message of ${size.bytes} bytes, which are at least ${size.tokens} tokens; the context window of ` +
        `agent-${agent_id} holds ${window}: shorten the message, or raise context_window_limit`;
      fields.push({ path, message });
      break;
    }
  }
  const [first] = fields;
  if (first === undefined) return null;
  return {
    code: 'validation_failed',
    message: `${first.path} ${first.message}. Nothing was stored.`,
    fields: fields.slice(0, ISSUES_MAX),
    fields_total: fields.length,
  };
}

function refuseUnpricedCaps(batch: PlannableBatch, facts: BatchFacts): Refusal | null {
  const isCapped = batch.cap?.cost_nanousd != null || batch.runs.some(({ cap }) => cap?.cost_nanousd != null);
  if (!isCapped) return null;
  const priced = new Set<string>();
  for (const [index, { model, doubts }] of agentsOf(facts).entries()) {
    const isBatchCapped = batch.cap?.cost_nanousd != null;
    if (!isBatchCapped && batch.runs[index]?.cap?.cost_nanousd == null) continue;
    const path = `${isBatchCapped ? (batch.places?.batch ?? '') : pathOf(batch, index)}/max_cost_usd`;
    const unpriced = unpricedServerTool(doubts);
    if (unpriced !== null) {
      const message = `cannot be kept: no answer reports the container time of the server tool '${unpriced}'; drop the cap or the tool`;
      return { code: 'validation_failed', message: `${path} ${message}.`, fields: [{ path, message }] };
    }
    if (priced.has(model)) continue;
    const refusal = refuseUnpriced(path, model, facts.prices);
    if (refusal !== null) return refusal;
    priced.add(model);
  }
  return null;
}

/** Returns the first server tool of an agent without a price; null for none. */
export function unpricedServerTool(doubts: RunAgent['doubts']): string | null {
  return doubts?.server_tools?.find((tool) => billingOf(tool) === 'time')?.name ?? null;
}

/** Refuses a cap in dollars at `path` on a model without a price. */
export function refuseUnpriced(path: string, handle: string, prices: PriceTable): Refusal | null {
  if (modelPrice(prices, parseModelHandle(handle)?.name ?? handle) !== null) return null;
  const message = `cannot be kept: the model ${handle} has no price in the price table`;
  return { code: 'validation_failed', message: `${path} ${message}.`, fields: [{ path, message }] };
}

function agentsOf({ requested, agents }: BatchFacts): readonly RunAgent[] {
  const found: RunAgent[] = [];
  for (const { key } of requested) {
    const agent = agents.get(key);
    if (agent !== undefined) found.push(agent);
  }
  return found;
}

/** The runs to check: all runs of a template are alike, so the first is enough. */
function ownRuns<Run>({
  runs,
  shared_path,
}: {
  readonly runs: readonly Run[];
  readonly shared_path: string | null;
}): readonly Run[] {
  return shared_path === null ? runs : runs.slice(0, 1);
}

/** Returns the pointer to the request of a run. */
function pathOf(
  { shared_path, places }: Pick<PlannableBatch, 'shared_path' | 'places'>,
  index: number,
): string {
  return shared_path ?? places?.runOf(index) ?? `/requests/${index}`;
}

/** Returns the pointer to the input of a template. */
function inputOf({ places }: PlannableBatch, index: number): string {
  return places?.runOf(index) ?? `/inputs/${index}`;
}
