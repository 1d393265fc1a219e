import { Option } from 'commander';
import { CommandError, EXIT } from '../../failure.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';
import { countOfNoun } from '../../words.ts';
import { addHeldFlags, listHeld, type HeldFlags } from './held.ts';
import { reviewInTerminal } from './review-loop.ts';
import { nameChosen, settleChosen, STALE, type SettleReport, type Verb } from './settle.ts';

interface Flags extends HeldFlags {
  readonly acceptAll?: true;
  readonly rejectAll?: true;
  readonly dryRun?: true;
}

/** Adds `review`. */
export const defineReview: Define = (command, run) => {
  addHeldFlags(
    command
      .command('review')
      .description('decide on the memory changes that a batch under review holds')
      .argument('<batch>', 'id of the batch'),
  )
    .option('--accept-all', 'accept all chosen changes, without a look at each')
    .option('--reject-all', 'reject all chosen changes, without a look at each')
    .option(
      '--dry-run',
      'list the chosen changes, and say what an accept or reject would do; settles nothing',
    )
    .addOption(
      new Option('--sort <order>', 'riskiest first, or oldest first')
        .choices(['risk', 'created_at'])
        .default('risk'),
    )
    .action(run<Flags>(reviewBatch));
};

async function reviewBatch(session: Session, flags: Flags, batchId: string): Promise<number> {
  if (flags.acceptAll && flags.rejectAll)
    throw new CommandError('Give --accept-all or --reject-all, not both.');
  if (flags.shrunk && flags.notShrunk) throw new CommandError('Give --shrunk or --not-shrunk, not both.');
  if (flags.stale && flags.notStale) throw new CommandError('Give --stale or --not-stale, not both.');
  const verb: Verb | undefined = flags.acceptAll ? 'accept' : flags.rejectAll ? 'reject' : undefined;
  if (flags.dryRun || (verb === undefined && session.out.isJson)) {
    await listChosen(session, flags, batchId);
    if (flags.dryRun) await tellPlan(session, flags, batchId, verb);
    return EXIT.ok;
  }
  if (verb !== undefined) return settleAll(session, flags, batchId, verb);
  if (process.stdin.isTTY && process.stderr.isTTY) return reviewInTerminal(session, batchId, flags);
  throw new CommandError(
    'No terminal for a review here. Add --accept-all or --reject-all, or --dry-run to list the changes.',
  );
}

async function listChosen(session: Session, flags: Flags, batchId: string): Promise<void> {
  await session.out.list(listHeld(session, batchId, flags), {
    head: ['agent', 'label', 'change', 'characters', 'lines', 'run', 'note', 'block'],
    row: (change) => [
      change.agent_id,
      change.label,
      change.kind,
      `${change.chars_before} → ${change.chars_after}`,
      `+${change.lines_added} −${change.lines_removed}`,
      [change.run_state, change.stop_reason].filter((text) => text !== null).join(', '),
      [change.shrunk ? 'shrunk' : '', change.stale_because?.reason ?? '']
        .filter((text) => text !== '')
        .join(', '),
      change.block_id,
    ],
    empty: 'No such changes are held.',
  });
}

async function tellPlan(
  session: Session,
  flags: Flags,
  batchId: string,
  verb: Verb | undefined,
): Promise<void> {
  if (verb === undefined) {
    session.out.note('Nothing was settled.');
    return;
  }
  const { settled, passages, stale } = await settleChosen(session, batchId, verb, flags, { isDry: true });
  const held = stale.length === 0 ? '' : `, and ${countOfNoun(stale.length, 'change')} would stay held`;
  session.out.note(
    `Nothing was settled: ${nameChosen(settled, 'change', passages)} would be ${VERDICTS[verb]}${held}.`,
  );
}

const VERDICTS: Readonly<Record<Verb, string>> = { accept: 'accepted', reject: 'rejected' };

async function settleAll(session: Session, flags: Flags, batchId: string, verb: Verb): Promise<number> {
  const plan = await settleChosen(session, batchId, verb, flags, { isDry: true });
  const total = plan.settled + plan.stale.length;
  const question = `${verb === 'accept' ? 'Accept' : 'Reject'} ${nameChosen(total, 'held change', plan.passages)} of ${batchId}?`;
  if (total + plan.passages > 0 && !(await session.confirm(question))) {
    session.out.note('Nothing was settled.');
    return EXIT.ok;
  }
  return tell(session, batchId, verb, await settleChosen(session, batchId, verb, flags));
}

/** Returns 1 if changes stay held. */
async function tell(
  session: Session,
  batchId: string,
  verb: Verb,
  { settled, passages, stale }: SettleReport,
): Promise<number> {
  const { out } = session;
  const held = stale.length;
  const report = { job_id: batchId, [VERDICTS[verb]]: settled, passages, held, stale };
  await out.record(report, () => `${nameChosen(settled, 'change', passages)} ${VERDICTS[verb]}`);
  for (const { agent_id, label, reason } of stale)
    out.warn(`${plainOf(label)} of ${agent_id} stays held: ${STALE[reason]}.`);
  if (held > 0)
    out.warn(
      `${countOfNoun(held, 'change')} held. nightshift memory review ${batchId} shows them one by one.`,
    );
  if (session.signal.aborted) return EXIT.interrupted;
  return held > 0 ? EXIT.failed : EXIT.ok;
}
