import {
  breakerRestMs,
  decideAfterRefusal,
  CRASHES_MAX,
  PAUSE_REASONS,
  type CredentialRest,
  type RefusalCause,
  type StepOutcome,
} from '@nightshift/agent-core';
import {
  claimCredential,
  claimDueSend,
  commitPutOff,
  commitRefused,
  commitRejected,
  commitSplit,
  commitUnknown,
  commitUnsealed,
  commitWriteAhead,
  inTransaction,
  lockPauseMs,
  lockSendable,
  lockUsable,
  newId,
  noteSuspect,
  noteTried,
  readOpenSteps,
  readUnsendableSteps,
  releaseCredential,
  type ClaimedCredential,
  type ClaimedProviderBatch,
  type CredentialVerdict,
  type Tx,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import { withLease } from '../../leases/with-lease.ts';
import { openBodyFile } from '../../provider/body-file.ts';
import type { CreateOutcome } from '../../provider/port.ts';
import { bookCreated } from './book-created.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { encodeRequests, type Encoding } from './encode-requests.ts';
import type { UnsendableRequest } from '../../flow-parts/requests/fit-requests.ts';
import { newNonce } from '../../flow-parts/nonce.ts';
import {
  measureOffset,
  providerNow,
  refreshProviderTime,
  offsetFields,
} from '../../flow-parts/provider-time.ts';
import { settleSteps } from '../../flow-parts/results/settle-open-steps.ts';
import { jitterDelay, TRIES_ALONE_MAX } from '../../flow-parts/alone.ts';

const FLOW = 'submit-provider-batch';
/** Delay while another worker sends under the credential. Unit: milliseconds. */
const CREDENTIAL_WAIT_MS = 500;
/** Maximum delay for a paused credential: the pause may end earlier. Unit: milliseconds. */
const PAUSE_WAIT_MS_MAX = 60_000;
/** Minimum lease time left after a create. Unit: milliseconds. */
const LEASE_MARGIN_MS = 5_000;
/** Delay before clocks that are apart are compared again. Unit: milliseconds. */
const CLOCK_REST_MS = 30_000;
/** Allowance for encoding: runs with less time left are not encoded a second time. Unit: milliseconds. */
const ENCODE_MS = 60_000;

/**
 * Sends one `building` provider batch: one create at a time per credential, at most one payment per intent.
 * 1. claim batch
 * 2. take back steps whose batch no longer runs or whose run is past its deadline
 * 3. claim credential, compare the clocks, encode to a file
 * 4. write ahead, if all may still be sent: from here on a pause, halt, cancel or deadline is too late
 * 5. check that both leases outlast the create
 * 6. POST, once
 * 7. commit the outcome
 *
 * A request that crashes its workers, or that the provider refuses, is isolated by splitting, and its run ends.
 */
export async function submitProviderBatch(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant, leases } = deps;
  const { batch, next_in_ms } = await claimDueSend(db, claimant);
  if (batch === null)
    return { flow: FLOW, worked: false, ...(next_in_ms === null ? {} : { again_in_ms: next_in_ms }) };
  const claim = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(leases, claim, async (lease) => {
    // Before the credential, which may be paused for hours: a cancel must not wait for it.
    const requests = await takeBackUnsendable(deps, batch, lease);
    if (requests === 0)
      return { flow: FLOW, worked: true, provider_batch_id: batch.id, outcome: 'withdrawn' };
    if (batch.crash_count >= CRASHES_MAX) {
      if (requests > 1) return halve(deps, batch, lease, requests);
      await jitterDelay(deps, lease);
    }
    const claimed = await claimCredential(db, batch.credential, claimant);
    if (claimed === null) {
      const pause_ms = await inTransaction(db, (trx) => putOff(trx, batch, lease));
      const again_in_ms = pause_ms > 0 ? 0 : CREDENTIAL_WAIT_MS;
      return { flow: FLOW, worked: false, again_in_ms, provider_batch_id: batch.id };
    }
    const credential = leases.hold(claimed);
    const giveBack = (verdict: CredentialVerdict): Promise<void> =>
      leases.releaseBy(credential, () => releaseCredential(db, credential, verdict));
    const sending = sendClaimed(deps, batch, lease, { requests, before: claimed, credential });
    const sent = await sending.catch(async (error: unknown) => {
      await giveBack(UNUSED).catch(() => undefined);
      throw error;
    });
    // A failed release is retried later, and the send is already committed.
    await giveBack(sent.verdict).catch(() => undefined);
    return sent.flow;
  });
}

const UNUSED: CredentialVerdict = { kind: 'unused' };

/**
 * Postpones a batch whose credential cannot be used now, so that batches behind it are reached and can be taken back.
 * Returns the milliseconds of the pause.
 */
async function putOff(trx: Tx, batch: ClaimedProviderBatch, lease: HeldLease): Promise<number> {
  const restMs = await lockPauseMs(trx, batch.credential, PAUSE_WAIT_MS_MAX);
  await commitPutOff(trx, lease, Math.max(CREDENTIAL_WAIT_MS, restMs));
  return restMs;
}

/** Takes back steps that must not be sent; returns the number of requests left. */
async function takeBackUnsendable(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
): Promise<number> {
  if (!(await readUnsendableSteps(deps.db, batch.id))) return batch.request_count;
  return inTransaction(deps.db, (trx) => commitUnsealed(trx, lease, batch.request_count));
}

/** Halves a batch that crashed workers. */
async function halve(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  requests: number,
): Promise<FlowReport> {
  const later = { id: newId(), nonce: newNonce() };
  await inTransaction(deps.db, (trx) =>
    commitSplit(trx, lease, 'building', Math.ceil(requests / 2), later, newNonce()),
  );
  await deps.bell.ring([{ kind: 'submit', id: batch.id }]);
  const reason = `${batch.crash_count} workers crashed while they held it`;
  return {
    flow: FLOW,
    worked: true,
    provider_batch_id: batch.id,
    requests,
    outcome: 'split',
    reason,
    warning: true,
  };
}

/** Returns the single request of a batch if three workers crashed over it alone; else notes this attempt. */
async function crashingRequest(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
): Promise<readonly UnsendableRequest[]> {
  const tries = await noteSuspect(deps.db, lease, batch, batch.nonce);
  if (tries <= TRIES_ALONE_MAX) return [];
  const reason = `${tries - 1} workers crashed while they held it alone`;
  const outcome = { kind: 'poison', bill: null } as const;
  return (await readOpenSteps(deps.db, batch.id, 1)).map((key) => ({ key, outcome, reason }));
}

async function sendClaimed(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  sealed: {
    readonly requests: number;
    readonly before: ClaimedCredential;
    readonly credential: HeldLease;
  },
): Promise<{ readonly flow: FlowReport; readonly verdict: CredentialVerdict }> {
  const { db, hooks, settings, leases } = deps;
  const report = {
    flow: FLOW,
    worked: true,
    provider_batch_id: batch.id,
    taken_over_from: batch.taken_over_from,
  };
  await hooks?.('submit.after_claim');

  let { requests } = sealed;
  const crashing = batch.crash_count >= CRASHES_MAX ? await crashingRequest(deps, batch, lease) : [];
  if (crashing.length > 0) {
    const taken = await takeOut(deps, lease, crashing, requests);
    return { flow: { ...report, ...taken }, verdict: UNUSED };
  }
  const { fields, rest } = await checkClocks(deps, lease);
  if (rest !== null) return { flow: { ...report, ...fields, outcome: 'put off' }, verdict: rest };
  const file = await openBodyFile(settings.body_dir);
  try {
    if (batch.crash_count > 0) await noteTried(db, lease);
    const encoding = await encodeRequests(deps, batch, requests, file, lease);
    const { unsendable, token_samples, steps_by_batch, cache_marks } = encoding;
    if (unsendable.length > 0) {
      const taken = await takeOut(deps, lease, unsendable, requests);
      return { flow: { ...report, ...taken }, verdict: UNUSED };
    }
    const body = await file.finish();
    if (body.count < requests) {
      requests = await inTransaction(db, (trx) => commitUnsealed(trx, lease, body.count));
      await deps.bell.ring([{ kind: 'compose', id: '*' }]);
      if (requests !== body.count) {
        // A batch was halted between the two reads, so the encoded body is stale. Begin again.
        await leases.release(lease, 0);
        return { flow: { ...report, outcome: 'changed' }, verdict: UNUSED };
      }
    }
    await hooks?.('submit.after_encode');

    // The leases must cover the whole create, so that no other worker marks this batch unknown or sends another meanwhile.
    const both = [sealed.credential, lease];
    for (const each of both) await leases.extend(each, settings.create_timeout_ms + 2 * LEASE_MARGIN_MS);
    const startedAt = await writeAhead(deps, batch, lease, sealed.credential, {
      bytes: body.bytes,
      sha256: body.sha256,
      request_count: body.count,
      token_samples,
      steps_by_batch,
      cache_marks,
    });
    if (startedAt === 'put off') return { flow: { ...report, outcome: startedAt }, verdict: UNUSED };
    if (startedAt === 'changed') {
      await inTransaction(db, (trx) => commitUnsealed(trx, lease, body.count, ENCODE_MS));
      await leases.release(lease, 0);
      await deps.bell.ring([{ kind: 'compose', id: '*' }]);
      return { flow: { ...report, outcome: startedAt }, verdict: UNUSED };
    }
    await hooks?.('submit.after_write_ahead');
    const blob = await body.blob();
    await hooks?.('submit.before_post');
    // No second extension: a search for a batch in doubt starts at the time of the write-ahead.
    if (both.some((each) => leases.remainingMs(each) < settings.create_timeout_ms + LEASE_MARGIN_MS)) {
      // Nothing was sent, and only this worker could have: the row goes back if it is still ours.
      await inTransaction(db, (trx) => commitRefused(trx, lease, { reason: 'paused before the send' }, 0));
      return { flow: { ...report, outcome: 'not sent' }, verdict: UNUSED };
    }
    const outcome = await deps.provider.createBatch(blob, { timeoutMs: settings.create_timeout_ms });
    await hooks?.('submit.after_post');
    const { verdict, ...detail } = await commitOutcome(deps, batch, lease, outcome, {
      requests,
      startedAt,
      before: sealed.before,
    });
    await hooks?.('submit.after_commit');
    return { flow: { ...report, requests, bytes: body.bytes, ...fields, ...detail }, verdict };
  } finally {
    await file.discard();
  }
}

/**
 * Compares the clocks: a search must be able to find the batch by the provider's clock. If they are too far apart, the
 * batch is put off, and `rest` is the pause of the credential.
 */
async function checkClocks(
  deps: FlowDeps,
  lease: HeldLease,
): Promise<{ readonly fields: object; readonly rest: CredentialVerdict | null }> {
  await refreshProviderTime(deps);
  const offset = await measureOffset(deps);
  if (offset === null) return { fields: {}, rest: null };
  const fields = offsetFields(offset);
  if (offset.verdict !== 'stop') return { fields, rest: null };
  await inTransaction(deps.db, (trx) => commitPutOff(trx, lease, CLOCK_REST_MS));
  // This machine's clock may have been set: only times of the provider from now on count.
  await deps.provider.clock.refresh();
  const rest = { kind: 'rests', pause_ms: CLOCK_REST_MS, reason: PAUSE_REASONS.clocks_apart } as const;
  return { fields, rest };
}

/**
 * Writes ahead that the body is sent, unless a halt, pause or cancel came while it was encoded. Returns the database's
 * time.
 */
async function writeAhead(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  credential: HeldLease,
  body: Parameters<typeof commitWriteAhead>[2] & Pick<Encoding, 'steps_by_batch'>,
): Promise<Date | 'put off' | 'changed'> {
  return inTransaction(deps.db, async (trx) => {
    // Encoding takes time: the send must not overtake a halt or an acknowledged cancel that came meanwhile.
    if (!(await lockUsable(trx, credential))) {
      await putOff(trx, batch, lease);
      return 'put off';
    }
    if (!(await lockSendable(trx, lease, [...body.steps_by_batch.keys()]))) return 'changed';
    return commitWriteAhead(trx, lease, { ...body, provider_sent_at: providerNow(deps) });
  });
}

/** Ends the runs of unsendable requests and takes these out; the rest of the batch begins again. */
async function takeOut(
  deps: FlowDeps,
  lease: HeldLease,
  unsendable: readonly UnsendableRequest[],
  requests: number,
): Promise<{
  readonly outcome: string;
  readonly poison: number;
  readonly unfit: number;
  readonly alarm: boolean;
}> {
  const unfit = unsendable.filter(({ outcome }) => outcome.kind === 'unfit');
  const poison = unsendable.filter(({ outcome }) => outcome.kind === 'poison');
  for (const chunk of chunksOf(unfit, deps.settings.chunk_lines)) await settleSteps(deps, lease, chunk);
  // One by one: further faults of them are unknown.
  for (const each of poison) await settleSteps(deps, lease, [each]);
  await inTransaction(deps.db, (trx) => commitUnsealed(trx, lease, requests));
  await deps.leases.release(lease, 0);
  return {
    outcome: poison.length > 0 ? 'poison taken out' : 'taken out',
    poison: poison.length,
    unfit: unfit.length,
    ...(poison[0] === undefined ? {} : { reason: poison[0].reason }),
    alarm: poison.length > 0,
  };
}

function chunksOf<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

async function commitOutcome(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  outcome: CreateOutcome,
  sent: { readonly requests: number; readonly startedAt: Date; readonly before: ClaimedCredential },
): Promise<
  {
    readonly outcome: string;
    readonly verdict: CredentialVerdict;
    readonly message?: string;
  } & Partial<PauseFields>
> {
  const { db, settings, bell } = deps;
  if (outcome.outcome === 'created') {
    const booked = await bookCreated(deps, batch, lease, outcome.batch);
    return { ...booked, verdict: { kind: 'works' } };
  }
  if (outcome.outcome === 'unknown') {
    const { quarantine_ms } = settings.reconcile;
    await inTransaction(db, (trx) => commitUnknown(trx, lease, outcome.reason, quarantine_ms));
    const pause_ms = breakerRestMs(sent.before.failures + 1, settings.breaker);
    const verdict = { kind: 'failed', pause_ms, reason: PAUSE_REASONS.unanswered } as const;
    return { outcome: 'unknown', verdict, message: outcome.reason };
  }
  const { what, message, retry_after_ms } = outcome;
  const error = { what, message, status: outcome.status, at: sent.startedAt.toISOString() };
  const decision = decideAfterRefusal(
    what,
    sent.requests,
    batch.failures,
    retry_after_ms,
    settings.refusal,
    sent.before.refusals,
  );
  switch (decision.kind) {
    case 'split': {
      const later = { id: newId(), nonce: newNonce() };
      await inTransaction(db, (trx) => commitSplit(trx, lease, 'submitting', decision.at, later, newNonce()));
      await bell.ring([{ kind: 'submit', id: batch.id }]);
      return {
        outcome: 'split',
        verdict: refusalVerdict(what, decision.rest),
        message,
        ...(decision.rest === undefined ? {} : pauseFields(decision.rest)),
      };
    }
    case 'fail_step': {
      const refused: StepOutcome = {
        kind: 'errored',
        error_class: what === 'too_large' ? 'too_long' : 'permanent',
        error_type: 'invalid_request_error',
        message,
      };
      const open = await readOpenSteps(db, batch.id, sent.requests);
      const settled = open.map((key) => ({ key, outcome: refused }));
      // In one commit: a submission in doubt without an open step would adopt another's batch unproven.
      await settleSteps(deps, lease, settled, (trx) => commitRejected(trx, lease, 'submitting', error));
      return { outcome: 'rejected', verdict: refusalVerdict(what), message };
    }
    case 'wait': {
      const isBad = what === 'bad_request';
      // Due after the flows that look again when the pause ends; else this batch alone would be tried each time.
      const delayMs = decision.delay_ms + (isBad ? 2 * CREDENTIAL_WAIT_MS : 0);
      await inTransaction(db, (trx) => commitRefused(trx, lease, error, delayMs));
      return {
        outcome: 'refused',
        verdict: {
          kind: isBad ? 'refused' : 'failed',
          pause_ms: decision.delay_ms,
          reason: decision.pause_reason,
        },
        message,
        ...pauseFields(decision),
      };
    }
  }
}

interface PauseFields {
  readonly reason: string;
  readonly alarm?: boolean;
}

/**
 * Returns the log fields of a pause: its reason, and an alarm if it needs an operator. One alarm per pause: nothing is sent
 * while it lasts.
 */
function pauseFields({ pause_reason, needs_operator }: CredentialRest): PauseFields {
  return { reason: pause_reason, ...(needs_operator ? { alarm: true } : {}) };
}

/** Returns the credential's verdict for one refused body: a bad request counts as a refusal, a too large body does not. */
function refusalVerdict(
  what: RefusalCause,
  { delay_ms, pause_reason }: Pick<CredentialRest, 'delay_ms' | 'pause_reason'> = {
    delay_ms: 0,
    pause_reason: 'a batch was refused',
  },
): CredentialVerdict {
  return what === 'bad_request' ? { kind: 'refused', pause_ms: delay_ms, reason: pause_reason } : UNUSED;
}
