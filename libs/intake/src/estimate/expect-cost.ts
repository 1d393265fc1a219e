import {
  estimateBatch,
  NightshiftError,
  toUsd,
  type BatchEstimate,
  type Cap,
  type PriceTable,
} from '@nightshift/agent-core';
import {
  commitExpectedCost,
  readBlockSizes,
  readConversationSizes,
  readDefinitions,
  readStoredRuns,
  readTokenCalibrations,
  readUnestimatedBatches,
  type Database,
  type StoredSample,
} from '@nightshift/db';
import { measureStored } from './measure-stored.ts';

/** Runs of a batch that are measured; of a larger batch they are spread evenly over it. */
const RUNS_MEASURED = 200;
/** Runs that are measured before a cap is refused. */
const RUNS_JUDGED = 2_000;
/** Batches that are estimated by one call, since runs wait for it. Those left are not estimated once a request is sent. */
const BATCHES_MAX = 200;
const NO_CAP: Cap = { cost_nanousd: null, output_tokens: null };

/** Estimates a stored batch by a sample of its runs, with a handful of statements, however large it is. */
async function estimateStored(
  db: Database,
  { runs, sample }: StoredSample,
  prices: PriceTable,
  cap: Cap,
): Promise<BatchEstimate> {
  const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids)];
  const groups = await measureStored(
    { db, prices },
    {
      sample,
      factor: runs / Math.max(1, sample.length),
      definitions: await readDefinitions(db, unique(sample.map((run) => run.definition_id))),
      blocks: await readBlockSizes(db, unique(sample.map((run) => run.agent_id))),
      sizes: await readConversationSizes(db, unique(sample.map((run) => run.conversation_id))),
      calibrations: await readTokenCalibrations(db),
    },
  );
  const free = groups.map((group) => ({ ...group, cap: NO_CAP }));
  const { verdict } = estimateBatch(prices, free, cap);
  return { ...estimateBatch(prices, groups, cap), verdict };
}

/** Batches that could not be estimated, and the first error; empty without any. */
export interface Unestimated {
  readonly unestimated?: number;
  readonly estimate_error?: string;
}

/**
 * Estimates running batches that are not estimated yet, before their first requests, and stores their expected costs.
 * A batch with a sent request gets none, since its own answers would enter the estimate.
 * Never throws: a batch that cannot be estimated goes on without an expectation, and is not tried again.
 */
export async function expectCosts(db: Database, prices: PriceTable): Promise<Unestimated> {
  const errors: unknown[] = [];
  const batchIds = await readUnestimatedBatches(db, BATCHES_MAX).catch(() => []);
  for (const batchId of batchIds) {
    try {
      const stored = await readStoredRuns(db, batchId, RUNS_MEASURED);
      const isKnown = stored.runs > 0 && !stored.has_started;
      const expected = isKnown ? (await estimateStored(db, stored, prices, NO_CAP)).cost_nanousd : null;
      await commitExpectedCost(db, batchId, expected?.expected ?? null);
    } catch (error) {
      errors.push(error);
      await commitExpectedCost(db, batchId, null).catch(() => undefined);
    }
  }
  if (errors.length === 0) return {};
  const [first] = errors;
  const estimate_error = first instanceof Error ? first.message : String(first);
  return { unestimated: errors.length, estimate_error };
}

/**
 * Refuses a cap of a stored batch that leaves no room for a single request. The caller's transaction is rolled back.
 * Never refuses by a sample: a batch of more than 2,000 runs without room is accepted, and pauses.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
export async function refuseLowCap(
  db: Database,
  batchId: string,
  prices: PriceTable,
  cap: Cap,
): Promise<void> {
  if (!isCapped(cap)) return;
  for (const count of [RUNS_MEASURED, RUNS_JUDGED]) {
    const stored = await readStoredRuns(db, batchId, count);
    const estimate = await estimateStored(db, stored, prices, cap);
    if (estimate.verdict !== 'cannot_start') return;
    if (stored.sample.length === stored.runs) refuseCannotStart(estimate, cap);
  }
}

/** Whether a cap limits anything. */
export function isCapped(cap: Cap): boolean {
  return cap.cost_nanousd !== null || cap.output_tokens !== null;
}

/**
 * Refuses a cap without room for a single request. Own caps of runs are not judged: such a run ends alone.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
export function refuseCannotStart(
  { verdict, least_cap }: Pick<BatchEstimate, 'verdict' | 'least_cap'>,
  cap: Cap,
): void {
  if (verdict !== 'cannot_start') return;
  const fields = [
    ...(cap.cost_nanousd === null
      ? []
      : [fieldError('/max_cost_usd', `$${toUsd(least_cap.cost_nanousd ?? 0)}`)]),
    ...(cap.output_tokens === null
      ? []
      : [fieldError('/max_output_tokens', `${least_cap.output_tokens} tokens`)]),
  ];
  const message = fields.map((field) => `${field.path}: ${field.message}`).join('; ');
  throw new NightshiftError('validation_failed', `The caps have no room for a single request: ${message}.`, {
    fields,
  });
}

function fieldError(path: string, least: string): { readonly path: string; readonly message: string } {
  return { path, message: `the smallest sensible cap for this batch is about ${least}` };
}
