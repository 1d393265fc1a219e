import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  markFinishedBatches,
  newId,
  readReadyBacklog,
  sealReadyRuns,
  type ReadyBacklog,
} from '@nightshift/db';
import { expectCosts } from '@nightshift/intake';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { newNonce } from '../../flow-parts/nonce.ts';
import { outputMaxima } from '../../flow-parts/requests/output-maxima.ts';
import { reserveBudgets } from './reserve-budgets.ts';
import { tellChanges } from './tell-changes.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';

const FLOW = 'compose-provider-batch';
/** Milliseconds between two looks at runs that wait for others: every ingested chunk rings. */
const GATHER_LOOK_MS = 250;
/** Milliseconds between two looks at runs that other workers hold. */
const LOOK_INTERVAL_MS = 1_000;

/**
 * Seals ready runs into a provider batch and reserves the worst cost of steps with a budget, in one transaction.
 * A full batch is sealed at once; a smaller batch when its oldest run has waited the gather window, so that steps travel
 * together, or when the ingest that made its runs ready has ended. Sending is another flow.
 */
export async function composeProviderBatch(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, hooks, settings } = deps;
  const backlog = await readReadyBacklog(db);
  const full = backlog.runs >= settings.requests_max;
  const waitedMs = backlog.gathered
    ? Math.max(backlog.oldest_ms, settings.gather_window_ms)
    : backlog.oldest_ms;
  if (!full && (backlog.runs === 0 || waitedMs < settings.gather_window_ms)) {
    const waits = backlog.runs === 0 ? backlog.next_in_ms : settings.gather_window_ms - waitedMs;
    return {
      flow: FLOW,
      worked: false,
      ...(waits === null ? {} : { again_in_ms: atLeastOneMs(waits) }),
      ...(backlog.runs === 0 || waits === null ? {} : { rest_ms: Math.min(waits, GATHER_LOOK_MS) }),
    };
  }
  const unestimated = await expectCosts(db, settings.prices);
  const id = newId();
  const maxima = outputMaxima(settings.prices);
  const { requests, taken, reserved } = await inTransaction(db, async (trx) => {
    const batch = { id, project_id: DEFAULT_PROJECT_ID, credential: settings.credential, nonce: newNonce() };
    const sealed = await sealReadyRuns(trx, batch, settings.requests_max, maxima);
    const { budgeted_batch_ids } = sealed;
    if (sealed.carries_on) await tellChanges(trx, id);
    const reserved =
      budgeted_batch_ids.length === 0
        ? null
        : await reserveBudgets(deps, trx, { ...batch, budgeted_batch_ids, due_for_ms: waitedMs });
    await hooks?.('compose.before_commit');
    const { taken_out, left } = reserved ?? { taken_out: 0, left: 0 };
    return { ...sealed, requests: sealed.requests - taken_out - left, reserved };
  });
  await hooks?.('compose.after_commit');
  if (reserved?.report != null) {
    const { report } = reserved;
    await ringAfterCommit(deps, report, await markFinishedBatches(db, report.ended_batch_ids));
  }
  const looks = nextLooks(backlog, taken, full || (reserved?.left ?? 0) > 0);
  if (taken === 0) return { flow: FLOW, worked: false, ...unestimated, ...looks };
  if (requests > 0) await bell.ring([{ kind: 'submit', id }]);
  return {
    flow: FLOW,
    worked: true,
    ...(requests === 0 ? {} : { provider_batch_id: id }),
    requests,
    ...(reserved === null
      ? {}
      : { no_room: reserved.taken_out, left: reserved.left, paused: reserved.paused }),
    ...unestimated,
    ...looks,
  };
}

/** Returns the next look at the backlog. `more`: further runs are ready, or may be. */
function nextLooks(
  { runs, next_in_ms }: ReadyBacklog,
  taken: number,
  more: boolean,
): Pick<FlowReport, 'again_in_ms' | 'rest_ms'> {
  // Other workers hold all ready runs, so an immediate look finds nothing.
  if (taken === 0) return { again_in_ms: LOOK_INTERVAL_MS, rest_ms: LOOK_INTERVAL_MS };
  if (more) return {};
  // No second look without a signal. Runs held by other workers return to the backlog if sealing fails.
  const left = taken < runs ? LOOK_INTERVAL_MS : null;
  const again = Math.min(left ?? Infinity, next_in_ms ?? Infinity);
  return { rest_ms: 0, ...(again === Infinity ? {} : { again_in_ms: atLeastOneMs(again) }) };
}

function atLeastOneMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
