import { lookSpacingMs } from '@nightshift/agent-core';
import {
  chargeLooks,
  claimDuePolls,
  claimLooks,
  type ClaimedPolls,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import type { ListOutcome, RemoteBatch, Unavailable } from '../../provider/port.ts';

/** Batches per look: as many as one page of the provider's list. */
export const CLAIM_MAX = 1_000;
/** Entries of a page of the provider's list. */
const PAGE_ENTRIES = 1_000;
/** Up to this many are retrieved one by one at fixed intervals; more share a list. */
const RETRIEVE_MAX = 3;

/** The provider's answers about claimed batches. */
export interface Looked {
  readonly seen: ReadonlyMap<string, RemoteBatch>;
  /** Ids of rows without an answer of the provider, each with the failure. */
  readonly unanswered: ReadonlyMap<string, Unavailable>;
  /** Ids of rows that this look did not ask for, and that stay as they are. */
  readonly unasked: ReadonlySet<string>;
  readonly calls: number;
}

/** Claims due batches for a look. Under a policy of looks they share its calls per minute with all workers. */
export function claimForLook({ db, claimant, settings }: FlowDeps): Promise<ClaimedPolls> {
  const { looks, poll_interval_ms } = settings.poll;
  if (looks === undefined) return claimDuePolls(db, CLAIM_MAX, claimant);
  const { credential } = settings;
  const claim = { credential, spacing_ms: lookSpacingMs(looks), ahead_ms: poll_interval_ms };
  return claimLooks(db, CLAIM_MAX, claimant, claim);
}

/**
 * Asks the provider for the claimed batches, by one list or a few retrieves.
 * Under a policy of looks it makes at most the calls of a minute, and each call puts off the next look. The list leaves
 * one call for the longest due batch, which may be older than its pages. Batches are unasked if the list does not show
 * them, and they are not due yet or no call is left.
 */
export async function look(deps: FlowDeps, { batches: claimed, now }: ClaimedPolls): Promise<Looked> {
  const { poll, credential } = deps.settings;
  const { looks } = poll;
  const isListed = claimed.length > (looks === undefined ? RETRIEVE_MAX : 1);
  const listed = isListed ? await list(deps, claimed, looks && looks.calls_per_minute - 1) : NOTHING_LISTED;
  const silence = listed.unavailable;
  const left = claimed.filter(({ id }) => !listed.seen.has(id));
  const dueMs = ({ next_due_at }: ClaimedProviderBatch): number => next_due_at?.getTime() ?? Infinity;
  const due =
    looks === undefined
      ? left
      : left.filter((batch) => dueMs(batch) <= now.getTime()).sort((a, b) => dueMs(a) - dueMs(b));
  const asked =
    looks === undefined || silence !== null ? due : due.slice(0, looks.calls_per_minute - listed.calls);
  const retrieved =
    silence === null
      ? await retrieveEach(deps, asked)
      : { ...NOTHING_LISTED, unanswered: new Map(asked.map(({ id }) => [id, silence])) };
  const calls = listed.calls + retrieved.calls;
  if (looks !== undefined && calls > 1)
    await chargeLooks(deps.db, credential, (calls - 1) * lookSpacingMs(looks));
  return {
    seen: new Map([...listed.seen, ...retrieved.seen]),
    unanswered: retrieved.unanswered,
    unasked: new Set(left.filter((batch) => !asked.includes(batch)).map(({ id }) => id)),
    calls,
  };
}

type Answers = Omit<Looked, 'unasked'>;
type Listed = Omit<Answers, 'unanswered'> & Pick<ListOutcome, 'unavailable'>;

const NOTHING_LISTED: Listed = { seen: new Map(), calls: 0, unavailable: null };

async function list(
  { provider, settings }: FlowDeps,
  claimed: readonly ClaimedProviderBatch[],
  limitPages?: number,
): Promise<Listed> {
  const sentAt = (batch: ClaimedProviderBatch): Date =>
    batch.provider_sent_at ?? batch.submit_started_at ?? batch.created_at;
  const oldest = Math.min(...claimed.map((batch) => sentAt(batch).getTime()));
  const { batches, unavailable } = await provider.listBatches({
    createdAfter: new Date(oldest - settings.reconcile.clock_margin_ms),
    ...(limitPages === undefined ? {} : { limitPages }),
  });
  const byProviderId = new Map(batches.map((remote) => [remote.provider_id, remote]));
  const seen = new Map<string, RemoteBatch>();
  for (const batch of claimed) {
    const remote = batch.provider_id === null ? undefined : byProviderId.get(batch.provider_id);
    if (remote !== undefined) seen.set(batch.id, remote);
  }
  const calls = Math.max(1, Math.ceil(batches.length / PAGE_ENTRIES));
  return { seen, calls, unavailable };
}

async function retrieveEach(
  { provider }: FlowDeps,
  batches: readonly ClaimedProviderBatch[],
): Promise<Answers> {
  const seen = new Map<string, RemoteBatch>();
  const unanswered = new Map<string, Unavailable>();
  let calls = 0;
  for (const batch of batches) {
    if (batch.provider_id === null) continue;
    const answer = await provider.retrieveBatch(batch.provider_id);
    calls += 1;
    if (answer.outcome === 'found') seen.set(batch.id, answer.batch);
    else if (answer.outcome === 'unavailable') unanswered.set(batch.id, answer);
  }
  return { seen, unanswered, calls };
}
