import {
  answerStoreCalls,
  editedBlocks,
  memoryNeeds,
  memoryOfStep,
  NO_MEMORY,
  openBlocks,
  readStoreCalls,
  recallTexts,
  storeCallsOf,
  type MemoryPolicy,
  type RememberingRun,
  type RunWithCalls,
  type StepMemory,
  type StoreAnswers,
} from '@nightshift/agent-core';
import {
  lockAgents,
  lockBlocksOfAgents,
  newId,
  readHeldDrafts,
  readLabelsBeside,
  readOwnTexts,
  readShownBlocks,
  readTimeZones,
  searchMessages,
  searchPassages,
  type Tx,
} from '@nightshift/db';
import { diff3MergeRegions, diffIndices } from 'node-diff3';

const TOOLS = { newId, diff3: { diff3MergeRegions, diffIndices } };
const NO_ANSWERS: StoreAnswers = new Map();

/** Returns the memory of a run for its present step, under the policy of its definition. */
export type MemoryOf = (run: RememberingRun, policy: MemoryPolicy) => StepMemory;

/** Locks and reads the memory of the agents of `runs`, whose answers contain memory calls. */
export async function openChunkMemory(
  trx: Tx,
  runs: readonly (RunWithCalls & { readonly run: { readonly attempt: number } })[],
): Promise<MemoryOf> {
  if (runs.length === 0) return () => NO_MEMORY;
  const agentIds = runs.map(({ run }) => run.agent_id);
  const { agents, labels, reviewed } = memoryNeeds(runs);
  if (agents) await lockAgents(trx, agentIds);
  const locked = await lockBlocksOfAgents(trx, agentIds);
  const steps = runs.map(({ run }) => ({ run_id: run.id, number: run.step_number, attempt: run.attempt }));
  const stored = {
    locked,
    shown: await readShownBlocks(trx, steps),
    labels: labels
      ? await readLabelsBeside(
          trx,
          locked.map((block) => block.block_id),
        )
      : [],
    drafts: reviewed.length === 0 ? [] : await readHeldDrafts(trx, reviewed),
  };
  const blocks = openBlocks(runs, stored, newId);
  recallTexts(blocks, await readOwnTexts(trx, editedBlocks(blocks, runs)));
  const store = await askStore(trx, runs);
  return (run, policy) => memoryOfStep(blocks, store, run, policy, TOOLS);
}

/**
 * Answers the searches of all runs of a chunk with one statement for many. A search never finds its own step: neither the
 * answer nor passages of its other calls, even if it runs later.
 */
async function askStore(trx: Tx, runs: readonly RunWithCalls[]): Promise<StoreAnswers> {
  const asked = storeCallsOf(runs);
  if (asked.length === 0) return NO_ANSWERS;
  const { now, zones } = await readTimeZones(trx, [...new Set(asked.map(({ run }) => run.agent_id))]);
  const questions = readStoreCalls(asked, zones);
  const found = await searchPassages(
    trx,
    questions.passages.map(({ search }) => search),
  );
  const said = await searchMessages(
    trx,
    questions.messages.map(({ search }) => search),
  );
  return answerStoreCalls(questions, found, said, now);
}
