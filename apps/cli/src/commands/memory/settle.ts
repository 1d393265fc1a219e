import type { AcceptReport, HeldFilter } from '@nightshift/client';
import type { Session } from '../../session.ts';
import { countOfNoun } from '../../words.ts';
import { choicesOf, filterOf, type HeldFlags } from './held.ts';

export type Verb = 'accept' | 'reject';

/** A decision on edits that a block got since the agent saw it. */
export type OnConflict = 'fail' | 'rebase' | 'force';

export type Stale = AcceptReport['stale'][number];

/** What became of changes. */
export interface SettleReport {
  readonly settled: number;
  /** Archival passages that were put in force or deleted. */
  readonly passages: number;
  /** Still held, with the reasons. */
  readonly stale: readonly Stale[];
}

/** Accepts or rejects the changes of a filter in one transaction. */
export async function settle(
  { client: { batches } }: Session,
  batchId: string,
  verb: Verb,
  filter: HeldFilter,
  onConflict: OnConflict = 'fail',
): Promise<SettleReport> {
  if (verb === 'reject') {
    const { rejected, passages } = await batches.rejectHeldChanges(batchId, filter);
    return { settled: rejected, passages, stale: [] };
  }
  const { accepted, ...report } = await batches.acceptHeldChanges(batchId, {
    ...filter,
    on_conflict: onConflict,
  });
  return { settled: accepted, ...report };
}

/** Options of {@link settleChosen}. */
export interface ChosenOptions {
  /** Ids of changes that stay as they are. */
  readonly except?: readonly string[];
  /** True reports what would happen, and settles nothing. Default: false. */
  readonly isDry?: boolean;
}

/** Accepts or rejects the changes that flags choose, in a request per run state. Stops after an interruption. */
export async function settleChosen(
  session: Session,
  batchId: string,
  verb: Verb,
  flags: HeldFlags,
  { except = [], isDry = false }: ChosenOptions = {},
): Promise<SettleReport> {
  let report: SettleReport = { settled: 0, passages: 0, stale: [] };
  for (const choice of choicesOf(flags)) {
    if (session.signal.aborted) break;
    const { settled, passages, stale } = await settle(session, batchId, verb, {
      ...filterOf(choice),
      ...(except.length > 0 && { except_ids: [...except] }),
      ...(isDry && { dry_run: true }),
    });
    report = {
      settled: report.settled + settled,
      passages: report.passages + passages,
      stale: [...report.stale, ...stale],
    };
  }
  return report;
}

/** Names a number of changes or more, and the archival passages with them. */
export function nameChosen(changes: number, noun: string, passages: number): string {
  const beside = passages === 0 ? '' : ` and ${countOfNoun(passages, 'archival passage')}`;
  return `${countOfNoun(changes, noun)}${beside}`;
}

/** Says why a change stays held, and what to do. */
export const STALE: Readonly<Record<Stale['reason'], string>> = {
  edited: 'the block was edited since the agent saw it',
  deleted: 'the block was deleted; reject the change',
  read_only: 'the block is read-only; reject the change, or allow writes first',
  over_limit: "the text exceeds the block's limit; raise the limit, edit the text, or reject it",
  label_taken: 'another block of the agent has the label; rename that block, or reject the change',
};
