import type { SignalKind } from '@nightshift/queue';
import { acceptBatch } from '../flows/accept-batch/accept-batch.ts';
import { auditBooks } from '../flows/audit-books/audit-books.ts';
import { cancelBatch } from '../flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../flow-parts/deps.ts';
import { forgetBatches } from '../flows/forget-batches/forget-batches.ts';
import { deliverWebhooks } from '../flows/deliver-webhooks/deliver-webhooks.ts';
import { findDueFlows, type DueFlow } from '../flows/find-due-flows.ts';
import { fireSchedules } from '../flows/fire-schedules/fire-schedules.ts';
import { finishBatch } from '../flows/finish-batch/finish-batch.ts';
import { huntOrphans } from '../flows/hunt-orphans/hunt-orphans.ts';
import { ingestResults } from '../flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../flows/reconcile-submission/reconcile-submission.ts';
import { runToolCalls } from '../flows/run-tool-calls/run-tool-calls.ts';
import { runToolTrial } from '../flows/run-tool-trials/run-tool-trial.ts';
import { submitProviderBatch } from '../flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../flows/sweep/sweep.ts';
import { createPump, type Pump, type PumpLog } from './pump.ts';

type FlowKind = SignalKind | DueFlow | 'hunt';

type Lanes = number | ((deps: FlowDeps) => number);

const FLOWS: Readonly<
  Record<FlowKind, { readonly flow: (deps: FlowDeps) => Promise<FlowReport>; readonly lanes: Lanes }>
> = {
  // Several lanes, so that a large fleet does not delay the others.
  accept: { flow: acceptBatch, lanes: 2 },
  compose: { flow: composeProviderBatch, lanes: 1 },
  submit: { flow: submitProviderBatch, lanes: 1 },
  reconcile: { flow: reconcileSubmission, lanes: 1 },
  poll: { flow: pollProviderBatches, lanes: 1 },
  // Several lanes, so that a slow result file does not delay the others.
  ingest: { flow: ingestResults, lanes: ({ settings }) => settings.ingest_lanes },
  // Several lanes: a chunk whose calls wait is not busy, and delays no other.
  tools: { flow: runToolCalls, lanes: 8 },
  // A caller waits for each trial: a slow tool delays no other.
  trial: { flow: runToolTrial, lanes: 16 },
  finish: { flow: finishBatch, lanes: 1 },
  cancel: { flow: cancelBatch, lanes: 1 },
  webhook: { flow: deliverWebhooks, lanes: 4 },
  sweep: { flow: sweep, lanes: 1 },
  audit: { flow: auditBooks, lanes: 1 },
  forget: { flow: forgetBatches, lanes: 1 },
  fire: { flow: fireSchedules, lanes: 1 },
  hunt: { flow: huntOrphans, lanes: 1 },
};

/** One pump for each flow of a worker. */
export interface Pumps {
  /** Requests a run of this flow. */
  kick(kind: FlowKind): void;
  /** As `kick`; resolves when the flow finds no more work, or rests. */
  drain(kind: SignalKind): Promise<void>;
  /** Queries the flows with due work and kicks their pumps, except the hunt, which has its own timer. */
  look(): void;
  /** Stops all pumps and waits for running flows. */
  stop(): Promise<void>;
}

export function createPumps(deps: FlowDeps, log: PumpLog): Pumps {
  const pumps = Object.fromEntries(
    Object.entries(FLOWS).map(([kind, { flow, lanes }]) => [
      kind,
      createPump(kind, () => flow(deps), log, typeof lanes === 'number' ? lanes : lanes(deps)),
    ]),
  ) as Readonly<Record<FlowKind, Pump>>;
  const lookForWork = createPump(
    'look',
    async () => {
      for (const kind of await findDueFlows(deps)) pumps[kind].kick();
      return { flow: 'look', worked: false };
    },
    log,
  );
  return {
    kick: (kind) => pumps[kind].kick(),
    drain: (kind) => pumps[kind].drain(),
    look: () => lookForWork.kick(),
    async stop() {
      await Promise.all([lookForWork, ...Object.values(pumps)].map((pump) => pump.stop()));
    },
  };
}
