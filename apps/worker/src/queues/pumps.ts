import type { SignalKind } from '@nightshift/queue';
import { auditBooks } from '../flows/audit-books/audit-books.ts';
import { cancelBatch } from '../flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../flow-parts/deps.ts';
import { deliverWebhooks } from '../flows/deliver-webhooks/deliver-webhooks.ts';
import { findDueFlows, type DueFlow } from '../flows/find-due-flows.ts';
import { finishBatch } from '../flows/finish-batch/finish-batch.ts';
import { huntOrphans } from '../flows/hunt-orphans/hunt-orphans.ts';
import { ingestResults } from '../flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../flows/reconcile-submission/reconcile-submission.ts';
import { runToolCalls } from '../flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../flows/sweep/sweep.ts';
import { createPump, type Pump, type PumpLog } from './pump.ts';

type FlowKind = SignalKind | DueFlow | 'hunt';

type Lanes = number | ((deps: FlowDeps) => number);

const FLOWS: Readonly<
  Record<FlowKind, { readonly flow: (deps: FlowDeps) => Promise<FlowReport>; readonly lanes: Lanes }>
> = {
  compose: { flow: composeProviderBatch, lanes: 1 },
  submit: { flow: submitProviderBatch, lanes: 1 },
  reconcile: { flow: reconcileSubmission, lanes: 1 },
  poll: { flow: pollProviderBatches, lanes: 1 },
  // One file may come slowly, and holds up no other.
  ingest: { flow: ingestResults, lanes: ({ settings }) => settings.ingest_lanes },
  tools: { flow: runToolCalls, lanes: 2 },
  finish: { flow: finishBatch, lanes: 1 },
  cancel: { flow: cancelBatch, lanes: 1 },
  webhook: { flow: deliverWebhooks, lanes: 4 },
  sweep: { flow: sweep, lanes: 1 },
  audit: { flow: auditBooks, lanes: 1 },
  hunt: { flow: huntOrphans, lanes: 1 },
};

/** A pump for every flow of a worker. */
export interface Pumps {
  /** Asks the pump of this kind to look. */
  kick(kind: FlowKind): void;
  /** As `kick`, and resolves when that pump has found nothing left to do, or rests. */
  drain(kind: SignalKind): Promise<void>;
  /** Asks the database which flows would find work, and kicks their pumps. Not the hunt: it asks the provider, at a pace of its own. */
  look(): void;
  /** Takes no more work and waits for what is under way. */
  stop(): Promise<void>;
}

/** Makes the pumps of a worker. */
export function createPumps(deps: FlowDeps, log: PumpLog): Pumps {
  const pumps = Object.fromEntries(
    Object.entries(FLOWS).map(([kind, { flow, lanes }]) => [
      kind,
      createPump(kind, () => flow(deps), log, typeof lanes === 'number' ? lanes : lanes(deps)),
    ]),
  ) as Readonly<Record<FlowKind, Pump>>;
  const lookout = createPump(
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
    look: () => lookout.kick(),
    async stop() {
      await Promise.all([lookout, ...Object.values(pumps)].map((pump) => pump.stop()));
    },
  };
}
