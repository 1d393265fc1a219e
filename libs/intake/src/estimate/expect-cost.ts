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
  readBlocksOfAgents,
  readConversationSizes,
  readDefinitions,
  readStoredRuns,
  readTokenCalibrations,
  type Database,
} from '@nightshift/db';
import { measureStored } from './measure-runs.ts';

/** Runs of a batch that are measured; of a larger batch they are spread evenly over it. */
const RUNS_MEASURED = 200;
const NO_CAP: Cap = { cost_nanousd: null, output_tokens: null };

/** Estimates a stored batch by a sample of its runs, with a handful of statements, however large it is. */
async function estimateStored(
  db: Database,
  batchId: string,
  prices: PriceTable,
  cap: Cap,
): Promise<BatchEstimate> {
  const { runs, sample } = await readStoredRuns(db, batchId, RUNS_MEASURED);
  const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids)];
  const groups = await measureStored(
    { db, prices },
    {
      sample,
      factor: runs / Math.max(1, sample.length),
      definitions: await readDefinitions(db, unique(sample.map((run) => run.definition_id))),
      blocks: await readBlocksOfAgents(db, unique(sample.map((run) => run.agent_id))),
      sizes: await readConversationSizes(db, unique(sample.map((run) => run.conversation_id))),
      calibrations: await readTokenCalibrations(db),
    },
  );
  return estimateBatch(prices, groups, cap);
}

/**
 * Stores the expected cost of a batch whose runs are stored.
 * Never throws: the batch goes on without an expectation.
 */
export async function expectCost(db: Database, batchId: string, prices: PriceTable): Promise<void> {
  try {
    const { cost_nanousd, requests } = await estimateStored(db, batchId, prices, NO_CAP);
    if (cost_nanousd === null || requests.low === 0) return;
    await commitExpectedCost(db, batchId, cost_nanousd.expected);
  } catch {
    // An estimate that cannot be made is none.
  }
}

/**
 * Refuses caps of a stored batch that leave no room for a single request. The caller's transaction is rolled back.
 * `runs_path`: pointer to the first run, whose own cap may be the cause.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
export async function refuseLowCaps(
  db: Database,
  batchId: string,
  prices: PriceTable,
  { cap, runs_path }: { readonly cap: Cap; readonly runs_path: string },
): Promise<void> {
  const { verdict, least_cap, cost_nanousd } = await estimateStored(db, batchId, prices, cap);
  if (verdict !== 'cannot_start') return;
  const path = cap.cost_nanousd === null && cap.output_tokens === null ? runs_path : '';
  const isMoney = path === '' ? cap.cost_nanousd !== null : least_cap.cost_nanousd !== null;
  const field = `${path}/${isMoney ? 'max_cost_usd' : 'max_output_tokens'}`;
  const least =
    least_cap.cost_nanousd === null || cost_nanousd === null
      ? `${least_cap.output_tokens} output tokens`
      : `$${toUsd(least_cap.cost_nanousd)} and ${least_cap.output_tokens} output tokens`;
  const message = `leaves no room for a single request; the smallest cap for all of this batch is about ${least}`;
  throw new NightshiftError('validation_failed', `${field} ${message}.`, {
    fields: [{ path: field, message }],
  });
}
