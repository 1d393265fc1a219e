import {
  billAtEnd,
  billOfOutcome,
  callsToPlan,
  decideStep,
  fromCustomId,
  isAwaited,
  isError,
  needsTokens,
  salvageCustomId,
  NO_TOOL_POLICY,
  NO_TRAIL,
  planCalls,
  type ToolPolicy,
  type PlannedCall,
  type StepCall,
  type StepKey,
  type StepOutcome,
} from '@nightshift/agent-core';
import {
  commitDecisions,
  commitQuarantinedLines,
  holdLease,
  inTransaction,
  lockRuns,
  markFinishedBatches,
  pauseBatches,
  pauseCredential,
  readBatchStates,
  readRunsToDecide,
  readStepsAtLimit,
  type ClaimedProviderBatch,
  type DecidedRun,
  type RunToDecide,
  type QuarantinedLine,
  type Tx,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import { validateArguments } from '../../flow-parts/calls/argument-validator.ts';
import { openChunkMemory } from '../../flow-parts/memory/chunk-memory.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { outputMaxima } from '../../flow-parts/requests/output-maxima.ts';
import { pricedOutcome, withPriceOf } from '../../flow-parts/results/price-outcome.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';
import {
  customIdOf,
  decodeLine,
  pricedBill,
  sortLines,
  toOutcome,
  type Entry,
} from '../../flow-parts/results/sort-result-lines.ts';
import { tryQuickCalls, type QuickStep } from './quick-calls.ts';

/** What became of the lines of one chunk. */
export interface AppliedChunk {
  readonly applied: number;
  /** Lines whose step was applied before: a stream that is read again. */
  readonly refused: number;
  readonly quarantined: number;
  /** The file stopped in the middle of its last line. */
  readonly cut: boolean;
  /** Of what an operator should hear, for the log: why lines were put aside as poison or left for another pass, or all sending paused. */
  readonly alarms: readonly string[];
}

const NOTHING_TRIED: ReadonlyMap<string, QuickStep> = new Map();
const CANCELLED_ELSEWHERE =
  'Requests of it were cancelled at the provider, and not by Nightshift: at its console, perhaps. Resume the batch to send them again, or cancel it.';
/** Times that a chunk is decided about whose runs move on under it. */
const STALE_TRIES_MAX = 5;
/** Characters of a poison line that are kept: all of it, as a rule, for it was paid. */
const POISON_CHARS = 4_000_000;
/** Characters of the head of a line that is not to be read, in which the model is looked for. */
const HEAD_CHARS = 1_000;

/**
 * Decodes a chunk of result lines, each in isolation, and applies them in one transaction. `isWhole`: they are not merely a
 * part of a chunk that has failed. Quick calls that the answers make are made first then, so that they end in the same
 * transaction, and how many of them fail tells an outage from failures of their own.
 */
export async function applyResultLines(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole = true,
): Promise<AppliedChunk> {
  // A line that cannot be read may read well the next time; only the last pass takes it for the provider's answer.
  const isLastPass = batch.streams + 1 >= deps.settings.streams_max;
  const { prices } = deps.settings;
  const { entries, bad, cut } = sortLines(batch, lines, isLastPass, prices, isWhole);
  const runs = await readRunsToDecide(deps.db, [...entries.keys()]);
  const trouble = accountTroubleIn(entries, runs);
  if (trouble !== null)
    await pauseCredential(deps.db, batch.credential, deps.settings.refusal.pause_ms, trouble);
  const cancelled = cancelledElsewhere(entries, runs);
  if (cancelled.length > 0)
    await inTransaction(deps.db, (trx) => pauseBatches(trx, cancelled, CANCELLED_ELSEWHERE));
  const quick = isWhole ? await tryQuickCalls(deps, lease, entries.values(), runs) : NOTHING_TRIED;
  const { applied, report } = await decideWhileFresh(deps, entries, runs, (facts) =>
    inTransaction(deps.db, async (trx) => {
      await holdLease(trx, lease);
      const decided = await decideChunk(deps, trx, entries, facts, quick);
      const report = await commitDecisions(trx, decided);
      if (bad.length > 0) await commitQuarantinedLines(trx, batch, bad);
      await deps.hooks?.('ingest.before_commit');
      return { applied: decided.length, report };
    }),
  );
  await ringAfterCommit(deps, report, await markFinishedBatches(deps.db, report.ended_batch_ids));
  return {
    applied,
    refused: entries.size - applied,
    quarantined: bad.length,
    cut,
    alarms: trouble === null ? [] : [trouble],
  };
}

/**
 * What a line says of the account, if its step still waits for it: one that is read again may tell of a key that is mended by
 * now. Acted upon before the commit, since the lines of a chunk that was committed are never new again.
 */
function accountTroubleIn(
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
): string | null {
  for (const { key, accountTrouble } of entries.values()) {
    const run = runs.get(key.run_id);
    if (accountTrouble !== null && run !== undefined && isAwaited(run, key)) return accountTrouble;
  }
  return null;
}

/**
 * Returns the batches with requests that were cancelled at the provider's console: Nightshift cancels only provider batches of
 * batches that are being cancelled. They are paused before the commit, in a transaction of its own, because batch locks come
 * before provider-batch locks.
 */
function cancelledElsewhere(
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
): readonly string[] {
  const batchIds = new Set<string>();
  for (const { key, outcome } of entries.values()) {
    if (outcome.kind !== 'canceled') continue;
    const run = runs.get(key.run_id);
    if (run !== undefined && run.batch_state !== 'cancelling' && isAwaited(run, key))
      batchIds.add(run.batch_id);
  }
  return [...batchIds];
}

/**
 * Commits what is decided by the runs as they were read, and reads them again when one has moved on meanwhile: the file has
 * its line twice, and another chunk was faster. Whose answer is in by then is refused the next time.
 */
async function decideWhileFresh<T>(
  { db }: FlowDeps,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  commit: (runs: ReadonlyMap<string, RunToDecide>) => Promise<T>,
): Promise<T> {
  let facts = runs;
  for (let tries = 1; ; tries++) {
    try {
      return await commit(facts);
    } catch (error) {
      if (!isError(error, 'stale') || tries === STALE_TRIES_MAX) throw error;
      facts = await readRunsToDecide(db, [...entries.keys()]);
    }
  }
}

/**
 * Ends the run of a line that cannot be applied, however often it is tried: puts the whole line aside and books what it
 * cost, unless it is not to be read again. A line whose step has its answer is refused as ever. `reason` is for the operator's log and goes nowhere else.
 */
export async function applyPoisonLine(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  line: Line,
  reason: string,
  readsIt = true,
): Promise<AppliedChunk> {
  const text = line.kind === 'line' ? line.text : line.head;
  const decoded = readsIt ? decodeLine(line) : null;
  const named = decoded === null ? salvageCustomId(text) : customIdOf(decoded);
  const { prices } = deps.settings;
  const outcome: StepOutcome =
    decoded === null || decoded.kind === 'blank'
      ? { kind: 'poison', bill: pricedBill(billAtEnd(text.slice(0, HEAD_CHARS), endOf(line)), prices) }
      : toOutcome(decoded, prices);
  const id = named === null ? null : fromCustomId(named);
  const aside: QuarantinedLine = {
    line_number: line.number,
    custom_id: named,
    reason: 'unreadable',
    byte_length: line.kind === 'line' ? Buffer.byteLength(text) : line.byte_length,
    excerpt: text.slice(0, POISON_CHARS),
    bill: toldBill(outcome),
  };
  const report = await inTransaction(deps.db, async (trx) => {
    await holdLease(trx, lease);
    const run =
      id?.nonce === batch.nonce ? (await lockRuns(trx, [id.key.run_id])).get(id.key.run_id) : undefined;
    if (id === null || run === undefined) {
      await commitQuarantinedLines(trx, batch, [aside]);
      return null;
    }
    const bill = billOfOutcome(await pricedOutcome(deps, trx, run, outcome));
    const decision = decideStep({ run, key: id.key, retry: deps.settings.retry }, { kind: 'poison', bill });
    if (decision.kind === 'refuse') return 'refused' as const;
    await commitQuarantinedLines(trx, batch, [aside]);
    return commitDecisions(trx, [{ run, decision }]);
  });
  if (report === 'refused') return { applied: 0, refused: 1, quarantined: 0, cut: false, alarms: [] };
  if (report !== null)
    await ringAfterCommit(deps, report, await markFinishedBatches(deps.db, report.ended_batch_ids));
  const named_reason = `line ${line.number}: ${reason}`;
  return { applied: report === null ? 0 : 1, refused: 0, quarantined: 1, cut: false, alarms: [named_reason] };
}

/** What the line itself says of its cost. */
function toldBill(outcome: StepOutcome): QuarantinedLine['bill'] {
  const bill = billOfOutcome(outcome);
  if (bill === null) return null;
  const { stop_reason, usage, message_id, model } = bill;
  return { stop_reason, usage, message_id, model };
}

function endOf(line: Line): string {
  return line.kind === 'line' ? line.text : line.tail;
}

/** A step that a line answers, with what its decision goes by. */
interface DueStep {
  readonly run: RunToDecide;
  readonly key: StepKey;
  readonly outcome: StepOutcome;
  readonly toolPolicy: ToolPolicy;
  readonly calls: readonly StepCall[];
}

/** Decides every line of the chunk, in run order, on the locked blocks that its memory calls may write. */
async function decideChunk(
  deps: FlowDeps,
  trx: Tx,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  quick: ReadonlyMap<string, QuickStep>,
): Promise<readonly DecidedRun[]> {
  const due = await planSteps(deps, trx, entries, runs, quick);
  const memoryOf = await openChunkMemory(
    trx,
    due.flatMap(({ run, calls }) => {
      const remembering = calls.flatMap(({ planned }) => (isCarriedOutHere(planned) ? [planned] : []));
      return remembering.length === 0 ? [] : [{ run, calls: remembering }];
    }),
  );
  const { retry } = deps.settings;
  return due.flatMap(({ run, key, outcome, toolPolicy, calls }): readonly DecidedRun[] => {
    const ofRun = calls.length === 0 ? undefined : memoryOf(run, toolPolicy.tools);
    const decision = decideStep({ run, key, retry, toolPolicy, calls }, outcome, ofRun);
    return decision.kind === 'refuse' ? [] : [{ run, decision }];
  });
}

/** Plans the calls of every answer of the chunk, in run order. */
async function planSteps(
  deps: FlowDeps,
  trx: Tx,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  quick: ReadonlyMap<string, QuickStep>,
): Promise<readonly DueStep[]> {
  const definitions = await deps.definitions.get(
    trx,
    [...runs.values()].map((run) => run.definition_id),
  );
  const atLimit = await readStepsAtLimit(
    trx,
    [...entries.values()]
      .filter(({ key, outcome }) => needsTokens(outcome, runs.get(key.run_id)?.summarises_to_seq != null))
      .map(({ key }) => key),
    outputMaxima(deps.settings.prices),
  );
  // A batch may have been cancelled while calls were made.
  const states = await readBatchStates(trx, [...new Set([...runs.values()].map((run) => run.batch_id))]);
  const due: DueStep[] = [];
  for (const read of runs.values()) {
    const entry = entries.get(read.id);
    if (entry === undefined) continue;
    const { key } = entry;
    const batch_state = states.get(read.batch_id) ?? read.batch_state;
    const is_at_token_limit = atLimit.has(read.id);
    const isAsRead = batch_state === read.batch_state && !is_at_token_limit;
    const run = isAsRead ? read : { ...read, batch_state, is_at_token_limit };
    const cached = definitions.get(run.definition_id);
    const toolPolicy = cached?.toolPolicy ?? NO_TOOL_POLICY;
    const outcome = withPriceOf(entry.outcome, cached, deps.settings.prices);
    due.push({ run, key, outcome, toolPolicy, calls: callsOf(run, key, outcome, toolPolicy, quick) });
  }
  return due;
}

const NO_CALLS: readonly StepCall[] = [];

/** The calls of an answer, with the outcome of those that were made already. */
function callsOf(
  run: RunToDecide,
  key: StepKey,
  outcome: StepOutcome,
  toolPolicy: ToolPolicy,
  quick: ReadonlyMap<string, QuickStep>,
): readonly StepCall[] {
  const uses = callsToPlan(run, key, outcome);
  if (uses.length === 0) return NO_CALLS;
  const tried = quick.get(run.id);
  if (tried?.definition_id === run.definition_id) return tried.calls;
  const { history } = run.trail ?? NO_TRAIL;
  return planCalls(uses, toolPolicy, history, validateArguments).map((planned) => ({
    planned,
    outcome: null,
  }));
}

function isCarriedOutHere({ kind, awaits }: PlannedCall): boolean {
  return kind === 'memory' && awaits === null;
}
