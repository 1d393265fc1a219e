import { ISSUES_MAX, NightshiftError, type PriceTable, unknownModel } from '@nightshift/agent-core';
import {
  readBlockLabels,
  readKnownAgents,
  receiveBatch,
  type Database,
  type NewBatch,
  type SelectedAgents,
  type Tx,
} from '@nightshift/db';
import { readNamedTools } from '../named-tools.ts';
import { refusePassedDeadlines, refuseUnknownTools, toError } from '../plan-batch.ts';
import type { BatchSource, PreparedFleet } from '../prepare-batch.ts';
import type { AgentSelection, FleetRequest } from '../request.ts';
import { toToolChoice } from '../to-runs.ts';
import { runCapOf } from './plan-agent.ts';

/** A fleet with the fields that all batches share. */
export interface NewFleet extends PreparedFleet {
  readonly batch: Omit<NewBatch, 'runs'>;
  /** ISO time. */
  readonly deadline: string | null;
}

/**
 * Stores a fleet as `receiving` with its agents, as selected now, and returns their number.
 * Throws: `validation_failed` for a passed deadline, a label that no block has, an unknown tool or model, or a
 * selection without agents; `not_found` for unknown agent ids. Nothing is stored then.
 */
export async function storeFleet(
  trx: Tx,
  projectId: string,
  fleet: NewFleet,
  { now, prices }: { readonly now: Date; readonly prices: PriceTable },
): Promise<number> {
  const { batch, source, deadline } = fleet;
  // Agents deleted since the schedule was made are skipped with their reason.
  const isTick = batch.tick !== undefined;
  await checkFleet(trx, projectId, fleet, { now, prices, mayLackAgents: isTick });
  const cap = runCapOf(source);
  const agents = await receiveBatch(trx, projectId, {
    ...batch,
    source: { ...source, deadline },
    selection: { ...toSelection(source.agents), with_deleted: isTick },
    has_capped_runs: cap.cost_nanousd !== null || cap.output_tokens !== null,
  });
  assertMatch(source, agents);
  return agents;
}

/** Refuses a selection without agents, unless the fleet allows it. */
export function assertMatch(source: BatchSource, agents: number): void {
  if (agents > 0 || source.allow_empty === true) return;
  throw refused('/agents', 'matches no agent; send allow_empty: true to accept a batch without runs');
}

interface FleetChecks {
  readonly now: Date;
  readonly prices: PriceTable;
  /** Whether ids of agents may be unknown. Default: false. */
  readonly mayLackAgents?: boolean;
}

/** Checks a fleet as {@link storeFleet} does, except for its number of agents, which may be none. */
export async function checkFleet(
  db: Database,
  projectId: string,
  fleet: Omit<NewFleet, 'batch'>,
  { now, prices, mayLackAgents = false }: FleetChecks,
): Promise<void> {
  const { source, deadline } = fleet;
  const late = refusePassedDeadlines({ deadline, runs: [], shared_path: null }, now);
  if (late !== null) throw toError(late);
  if (!mayLackAgents) await assertKnownAgents(db, projectId, source.agents.ids ?? []);
  await assertKnownLabels(db, projectId, fleet);
  if (source.kind !== 'memory_rewrite') await assertKnownTools(db, projectId, source);
  assertModel(source.model, prices);
}

/** Converts the selection of a request. */
export function toSelection(agents: AgentSelection): SelectedAgents {
  return {
    ids: agents.ids ?? null,
    tags: agents.tags ?? [],
    all_tags: agents.match_all_tags ?? false,
    name_part: agents.query_text ?? null,
    limit: agents.limit ?? null,
  };
}

async function assertKnownAgents(db: Database, projectId: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const known = await readKnownAgents(db, projectId, ids);
  const fields = ids.flatMap((id, index) =>
    known.has(id) ? [] : [{ path: `/agents/ids/${index}`, message: `There is no agent agent-${id}.` }],
  );
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('not_found', `${first.message} Nothing was stored.`, {
    fields: fields.slice(0, ISSUES_MAX),
  });
}

/** Refuses labels that no block of the project has: a typing error would skip every agent. */
async function assertKnownLabels(
  db: Database,
  projectId: string,
  { source, labels }: PreparedFleet,
): Promise<void> {
  if (labels.length === 0) return;
  const known = await readBlockLabels(db, projectId, labels);
  const unknown = labels.find((label) => !known.has(label));
  if (unknown === undefined) return;
  const place = source.kind === 'memory_rewrite' ? `/blocks/${labels.indexOf(unknown)}` : '/input';
  throw refused(place, `names the block '${unknown}', which no agent has`);
}

async function assertKnownTools(db: Database, projectId: string, source: FleetRequest): Promise<void> {
  const runs = [{ tools: toToolChoice(source) }];
  const batch = { runs, shared_path: '' };
  const unknown = refuseUnknownTools(batch, await readNamedTools(db, projectId, runs));
  if (unknown !== null) throw toError(unknown);
}

/** Refuses a model that agents could not have either. */
function assertModel(handle: string | null | undefined, prices: PriceTable): void {
  if (handle == null) return;
  const message = unknownModel(prices, handle);
  if (message !== null) throw refused('/model', message);
}

function refused(path: string, message: string): NightshiftError {
  return new NightshiftError('validation_failed', `${path} ${message}. Nothing was stored.`, {
    fields: [{ path, message }],
  });
}
