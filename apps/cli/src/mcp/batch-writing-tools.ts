import type { Batch, BatchCreate, BatchRetry, FailureGroups, Nightshift } from '@nightshift/client';
import { z } from 'zod';
import { endedOf } from '../ended.ts';
import { describeEstimate, showBatch, standingOf } from './batch-tools.ts';
import { batchBody, batchId } from './inputs.ts';
import { counted, writingTool, type Answer, type WritingTool } from './tool.ts';

/** Agents that a dry run names. */
const AGENTS_SHOWN = 10;
const FAILED = ['failed', 'expired'] as const;
const ENDED = ['completed', 'cancelled', ...FAILED] as const;

const submit = writingTool({
  name: 'submit_batch',
  description:
    'Starts a batch: a run per request, input or selected agent. The dry run tells the runs, the agents and the cost. Give max_cost_usd.',
  isDestructive: false,
  input: z.object({ batch: batchBody }),
  dryRun: async (client, { batch }) => {
    const estimate = await client.batches.estimate(batch as BatchCreate);
    const ids = batch.requests?.map(({ agent_id }) => agent_id) ?? estimate.fleet?.first_agent_ids;
    const agents = [...new Set(ids ?? [batch.template?.agent_id])];
    return {
      text: `It would start ${describeEstimate(estimate)}`,
      data: {
        estimate,
        first_agent_ids: agents.slice(0, AGENTS_SHOWN),
        agents_total: estimate.fleet?.agents ?? agents.length,
      },
      state: estimate.runs,
    };
  },
  act: async (client, { batch }, idempotencyKey) =>
    started(await client.batches.create(batch as BatchCreate, { idempotencyKey })),
});

const retry = writingTool({
  name: 'retry_batch',
  description:
    'Tries runs of a batch again, as a new batch. Default: all failed and expired runs. The dry run tells how many, and the groups of failures.',
  isDestructive: false,
  input: z.object({
    batch_id: batchId,
    states: z.array(z.enum(['completed', 'failed', 'expired', 'cancelled'])).exactOptional(),
    error_group: z.string().exactOptional().describe('A group of batch_errors'),
    run_ids: z.array(z.string()).exactOptional(),
    definitions: z
      .enum(['same', 'current'])
      .exactOptional()
      .describe('current: with the agents as they are now'),
    max_cost_usd: z.number().exactOptional(),
    name: z.string().exactOptional(),
  }),
  dryRun: async (client, { batch_id, ...selection }) => {
    const batch = await client.batches.retrieve(batch_id);
    const failures = await client.batches.errors(batch_id, { limit: 20 });
    const runs = runsToRetry(batch, failures, selection);
    const ended = endedOf(batch);
    const cost =
      batch.usage.cost_usd === null || ended === 0 ? null : (Number(batch.usage.cost_usd) / ended) * runs;
    const about = cost === null ? '' : ` The cost is about $${cost.toFixed(4)}, by that of the ended runs.`;
    return {
      text: `It would try at most ${counted(runs, 'run')} of ${batch.id} again, without those that an earlier retry has taken.${about}`,
      data: { runs_at_most: runs, expected_cost_usd: cost, failures, batch: showBatch(batch) },
      state: runs,
    };
  },
  act: async (client, { batch_id, ...selection }, idempotencyKey) =>
    started(await client.batches.retry(batch_id, selection, { idempotencyKey })),
});

/** Most runs that a retry takes; earlier retries may have taken some. */
function runsToRetry({ counts }: Batch, { groups }: FailureGroups, selection: BatchRetry): number {
  const { states, error_group, run_ids } = selection;
  const isChosen = error_group != null || run_ids != null;
  const inStates = (states ?? (isChosen ? ENDED : FAILED)).reduce((sum, state) => sum + counts[state], 0);
  const inGroup = groups.find((group) => group.error_group === error_group)?.runs;
  return Math.min(inStates, inGroup ?? inStates, run_ids?.length ?? inStates);
}

/** What a change of a batch does, for its dry run. */
interface Change {
  readonly name: string;
  readonly description: string;
  readonly isDestructive: boolean;
  readonly effect: string;
}

const cancel = changing(
  {
    name: 'cancel_batch',
    description: 'Cancels a batch. Paid answers are kept; runs that have not ended are cancelled for good.',
    isDestructive: true,
    effect: 'It would be cancelled for good. Requests at the provider are paid and stored.',
  },
  (client, id) => client.batches.cancel(id),
);

const pause = changing(
  {
    name: 'pause_batch',
    description: 'Pauses a batch: no new request is sent. resume_batch continues it.',
    isDestructive: false,
    effect: 'It would be paused: no new request is sent; requests at the provider are paid and stored.',
  },
  (client, id, idempotencyKey) => client.batches.pause(id, { idempotencyKey }),
);

const resume = changing(
  {
    name: 'resume_batch',
    description: 'Continues a paused batch, also after a pilot. The other runs are then sent and paid.',
    isDestructive: false,
    effect: 'It would go on: its open runs are sent and paid.',
  },
  (client, id, idempotencyKey) => client.batches.resume(id, { idempotencyKey }),
);

/** Defines a tool that changes the state of a batch. Its token holds while the batch stays in its state. */
function changing(
  { effect, ...tool }: Change,
  change: (client: Nightshift, id: string, key: string) => Promise<Batch>,
): WritingTool {
  return writingTool({
    ...tool,
    input: z.object({ batch_id: batchId }),
    dryRun: async (client, { batch_id }) => {
      const batch = await client.batches.retrieve(batch_id);
      return {
        text: `${standingOf(batch)} ${effect}`,
        data: { batch: showBatch(batch), progress: batch.progress },
        state: batch.state,
      };
    },
    act: async (client, { batch_id }, key) => {
      const batch = await change(client, batch_id, key);
      return { text: standingOf(batch), data: { batch: showBatch(batch) } };
    },
  });
}

function started(batch: Batch): Answer {
  return {
    text: `Batch ${batch.id} has started, with ${counted(batch.counts.total, 'run')}. batch_progress shows where it stands.`,
    data: { batch: showBatch(batch) },
  };
}

export const BATCH_WRITING_TOOLS: readonly WritingTool[] = [submit, retry, cancel, pause, resume];
