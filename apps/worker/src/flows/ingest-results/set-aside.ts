import {
  billAtEnd,
  billOfOutcome,
  decideStep,
  fromCustomId,
  salvageCustomId,
  type StepOutcome,
} from '@nightshift/agent-core';
import {
  commitDecisions,
  commitQuarantinedLines,
  holdLease,
  inTransaction,
  lockRuns,
  markFinishedBatches,
  type ClaimedProviderBatch,
  type QuarantinedLine,
} from '@nightshift/db';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { pricedOutcome } from '../../flow-parts/results/price-outcome.ts';
import { customIdOf, decodeLine, pricedBill, toOutcome } from '../../flow-parts/results/sort-result-lines.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import { joinChunks, type AppliedChunk } from './applied-chunk.ts';

/** Characters kept of a line set aside: normally all, because it was paid. */
const EXCERPT_CHARS = 4_000_000;
/** Characters at the head of an unread line that are searched for the model. */
const HEAD_CHARS = 1_000;

/**
 * Ends the run of a line that cannot be applied: sets the line aside and books its cost.
 * The cost is unknown if the line must not be read again. A line of an answered step is refused as usual. `reason` goes
 * only to the operator's log.
 */
export async function setAside(
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
    excerpt: text.slice(0, EXCERPT_CHARS),
    bill: billOfLine(outcome),
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
  if (report === 'refused') return { ...joinChunks([]), refused: 1 };
  if (report !== null)
    await ringAfterCommit(deps, report, await markFinishedBatches(deps.db, report.ended_batch_ids));
  const named_reason = `line ${line.number}: ${reason}`;
  return {
    ...joinChunks([]),
    applied: report === null ? 0 : 1,
    quarantined: 1,
    alarms: [named_reason],
  };
}

/** Returns the bill in the line itself. */
function billOfLine(outcome: StepOutcome): QuarantinedLine['bill'] {
  const bill = billOfOutcome(outcome);
  if (bill === null) return null;
  const { stop_reason, usage, message_id, model } = bill;
  return { stop_reason, usage, message_id, model };
}

function endOf(line: Line): string {
  return line.kind === 'line' ? line.text : line.tail;
}
