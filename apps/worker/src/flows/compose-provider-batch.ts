import { DEFAULT_PROJECT_ID, inTransaction, newId, readReadyBacklog, sealReadyRuns } from '@nightshift/db';
import type { FlowDeps, FlowReport } from './deps.ts';
import { newNonce } from './nonce.ts';

/**
 * Seals ready runs into a provider batch: at once when they fill one, else when the oldest has waited the gather
 * window, so that steps travel together. Pure database work; the sending is another flow's.
 */
export async function composeProviderBatch(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, hooks, settings } = deps;
  const backlog = await readReadyBacklog(db);
  const full = backlog.runs >= settings.requests_max;
  if (!full && (backlog.runs === 0 || backlog.oldest_ms < settings.gather_window_ms)) {
    const waits = backlog.runs === 0 ? backlog.next_in_ms : settings.gather_window_ms - backlog.oldest_ms;
    return {
      flow: 'compose-provider-batch',
      worked: false,
      ...(waits === null ? {} : { again_in_ms: Math.max(1, Math.ceil(waits)) }),
    };
  }
  const id = newId();
  const requests = await inTransaction(db, async (trx) => {
    const batch = { id, project_id: DEFAULT_PROJECT_ID, credential: settings.credential, nonce: newNonce() };
    const sealed = await sealReadyRuns(trx, batch, settings.requests_max);
    await hooks?.('compose.before_commit');
    return sealed;
  });
  await hooks?.('compose.after_commit');
  if (requests > 0) await bell.ring([{ kind: 'submit', id }]);
  return { flow: 'compose-provider-batch', worked: true, provider_batch_id: id, requests };
}
