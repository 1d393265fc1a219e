import {
  ACCOUNT_TROUBLE,
  batchCostNanoUsd,
  classifyErroredLine,
  decodeLongLine,
  decodeResultLine,
  fromCustomId,
  salvageCustomId,
  type DecodedBill,
  type DecodedLine,
  type PriceTable,
  type StepBill,
  type StepKey,
  type StepOutcome,
} from '@nightshift/agent-core';
import type { QuarantinedLine } from '@nightshift/db';
import type { Line } from '../../provider/line-splitter.ts';

const EXCERPT_CHARS = 2_000;

/** A line that answers a step. */
export interface Entry {
  readonly key: StepKey;
  readonly outcome: StepOutcome;
  readonly line: Line;
  /** Trouble of the key or account by this line; null if none. */
  readonly accountTrouble: string | null;
}

/** The sorted lines of a chunk. */
export interface SortedLines {
  /** Answers to steps of the batch, by run id. */
  readonly entries: ReadonlyMap<string, Entry>;
  /** Lines to set aside. */
  readonly bad: readonly QuarantinedLine[];
  /** The file ends within a line. */
  readonly cut: boolean;
}

/**
 * Decodes each line on its own and sorts it.
 * `isLastPass`: an unreadable line is final; in earlier passes it may be readable in the next. A complete line is final in
 * every pass.
 */
export function sortLines(
  batch: { readonly nonce: string },
  lines: readonly Line[],
  isLastPass: boolean,
  prices: PriceTable,
): SortedLines {
  const entries = new Map<string, Entry>();
  const bad: QuarantinedLine[] = [];
  let cut = false;
  for (const line of lines) {
    const decoded = decodeLine(line);
    if (decoded.kind === 'blank') continue;
    if (decoded.kind === 'unreadable' && !line.terminated) {
      cut = true;
      continue;
    }
    const id = decoded.custom_id === null ? null : fromCustomId(decoded.custom_id);
    const isOurs = id?.nonce === batch.nonce;
    if (decoded.kind === 'unreadable' || (decoded.kind === 'unusable' && isOurs)) {
      const reason = line.kind === 'line' ? decoded.kind : 'too_long';
      bad.push(asideOf(line, decoded.custom_id, reason, decoded.bill));
    }
    if (!isOurs) {
      if (decoded.kind !== 'unreadable') bad.push(asideOf(line, decoded.custom_id, 'foreign'));
      continue;
    }
    if (decoded.kind === 'unreadable' && !isLastPass) continue;
    const first = entries.get(id.key.run_id);
    if (first === undefined) {
      const accountTrouble = accountTroubleOf(decoded);
      entries.set(id.key.run_id, { key: id.key, outcome: toOutcome(decoded, prices), line, accountTrouble });
    } else if (!isSameText(first.line, line)) {
      bad.push(asideOf(line, decoded.custom_id, 'conflicting'));
    }
  }
  return { entries, bad, cut };
}

/** Decodes a line, or the kept ends of a long line. */
export function decodeLine(line: Line): DecodedLine {
  return line.kind === 'line' ? decodeResultLine(line.text) : decodeLongLine(line);
}

function isSameText(one: Line, other: Line): boolean {
  return one.kind === 'line' && other.kind === 'line' && one.text === other.text;
}

function accountTroubleOf(decoded: DecodedLine): string | null {
  return decoded.kind === 'errored' && classifyErroredLine(decoded) === 'account'
    ? `${ACCOUNT_TROUBLE}${decoded.error_code ?? decoded.error_type}`
    : null;
}

function asideOf(
  line: Line,
  customId: string | null,
  reason: QuarantinedLine['reason'],
  bill: DecodedBill | null = null,
): QuarantinedLine {
  const text = line.kind === 'line' ? line.text : line.head;
  return {
    line_number: line.number,
    custom_id: customId,
    reason,
    byte_length: line.kind === 'line' ? Buffer.byteLength(text) : line.byte_length,
    excerpt: text.slice(0, EXCERPT_CHARS),
    bill,
  };
}

/** True if lines name steps of other batches only, false if a line is ours, null if they name no step. */
export function answersForOthers(batch: { readonly nonce: string }, lines: readonly Line[]): boolean | null {
  const ids = lines.flatMap((line) => {
    const named = line.kind === 'line' ? customIdOf(decodeResultLine(line.text)) : salvageCustomId(line.head);
    return named === null ? [] : [named];
  });
  return ids.length === 0 ? null : ids.every((id) => fromCustomId(id)?.nonce !== batch.nonce);
}

export function customIdOf(decoded: DecodedLine): string | null {
  return decoded.kind === 'blank' ? null : decoded.custom_id;
}

/** Returns the outcome of a readable line, priced by its model. A refusal before the first word costs nothing. */
export function toOutcome(decoded: Exclude<DecodedLine, { kind: 'blank' }>, prices: PriceTable): StepOutcome {
  switch (decoded.kind) {
    case 'answered': {
      const { answer } = decoded;
      const isFree = answer.stop_reason === 'refusal' && answer.content.length === 0;
      const cost_nanousd = isFree ? 0 : batchCostNanoUsd(prices, answer.model ?? '', answer.usage);
      return { kind: 'answered', answer: { ...answer, cost_nanousd } };
    }
    case 'errored': {
      const error_class = classifyErroredLine(decoded);
      return { kind: 'errored', error_class, error_type: decoded.error_type, message: decoded.message };
    }
    case 'unusable':
    case 'unreadable':
      return { kind: decoded.kind, reason: decoded.reason, bill: pricedBill(decoded.bill, prices) };
    default:
      return { kind: decoded.kind };
  }
}

/** Prices the bill of a line by its model. */
export function pricedBill(bill: DecodedBill | null | undefined, prices: PriceTable): StepBill | null {
  if (bill == null) return null;
  return { ...bill, cost_nanousd: batchCostNanoUsd(prices, bill.model ?? '', bill.usage) };
}
