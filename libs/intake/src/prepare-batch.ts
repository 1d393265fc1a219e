import type { ToolChoice } from '@nightshift/agent-core';
import type { NewRun } from '@nightshift/db';
import type { BatchOptions, BatchRequest, FleetRequest, RewriteRequest, RunsRequest } from './request.ts';
import { assertSchemas } from './assert-schemas.ts';
import { parseFleetInput } from './fleet/fleet-input.ts';
import { requestedRuns } from './requested-runs.ts';
import { toToolChoice } from './to-runs.ts';

/** A batch body with its runs, or with the source that `accept-batch` makes them of. */
export type PreparedBody = { readonly options: BatchOptions } & (PreparedRuns | PreparedFleet);

/** A batch to store, from a body or from an upload. */
export type PreparedBatch = PreparedBody | ({ readonly options: BatchOptions } & PreparedLines);

/** The staged lines of an upload. */
export interface PreparedLines {
  /** The id of the batch, under which they are staged. */
  readonly batch_id: string;
  readonly lines: number;
  readonly shared: NewRun;
  readonly has_capped_runs: boolean;
}

/** The source of a fleet. */
export interface PreparedFleet {
  readonly source: BatchSource;
  /** Labels that it names; each must be the label of a block of the project. */
  readonly labels: readonly string[];
}

/** All runs of a batch. */
export interface PreparedRuns {
  readonly runs: readonly NewRun[];
  /** The choice of the batch. */
  readonly tools: ToolChoice | null;
  /** Pointer to the fields shared by all runs; null when each request has its own. */
  readonly shared_path: string | null;
}

/** The part of a body that the runs of a fleet are made of; stored with the batch. */
export type BatchSource = FleetRequest | RewriteRequest;

/** The fields of a body that are columns of the batch, not part of its source. */
const OPTIONS = [
  'callback_url',
  'callback_events',
  'metadata',
  'apply',
  'hold_if',
  'pilot',
  'name',
  'tags',
  'stop_when',
  'max_cost_usd',
  'max_output_tokens',
  'expires_in_days',
];

/**
 * Prepares a batch outside any transaction: fills its template, checks its schemas.
 * `hold` gets the bytes of each filled template and may throw to end the work.
 * Throws: `validation_failed`, `invalid_argument`, `payload_too_large`.
 */
export async function prepareBatch(body: BatchRequest, hold: (bytes: number) => void): Promise<PreparedBody> {
  if ('agents' in body) return prepareFleet(body);
  const tools = toToolChoice(body);
  const runs = await requestedRuns(body satisfies RunsRequest, tools, hold);
  return { options: body, runs, tools, shared_path: body.template == null ? null : '/template' };
}

async function prepareFleet(body: BatchOptions & BatchSource): Promise<PreparedBody> {
  const labels = labelsOf(body);
  if (body.kind !== 'memory_rewrite') await assertSchemas({ fleet: body });
  const fields = Object.entries(body).filter(([name, value]) => value != null && !OPTIONS.includes(name));
  return { options: body, source: Object.fromEntries(fields) as unknown as BatchSource, labels };
}

/** Returns the labels that a fleet names. Throws: `validation_failed` for an unusable input. */
function labelsOf(source: BatchSource): readonly string[] {
  if (source.kind === 'memory_rewrite') return source.create_blocks === true ? [] : source.blocks;
  return parseFleetInput(source.input, source.cursor != null).labels ?? [];
}
