import { openOf } from '../ended.ts';
import { CommandError, EXIT } from '../failure.ts';
import { gatherList } from '../parse.ts';
import type { Define, Session } from '../session.ts';
import { countOfNoun } from '../words.ts';

interface Flags {
  readonly run?: readonly string[];
  readonly errorGroup?: string;
  readonly dryRun?: true;
}

/** Cancels a batch, or some of its runs. */
export const define: Define = (command, run) => {
  command
    .argument('<batch>', 'id of the batch')
    .option('--run <id>', 'this run only; may be repeated', gatherList)
    .option('--error-group <group>', 'open runs that are tried again because of this group only')
    .option('--dry-run', 'count the runs; cancels nothing')
    .action(run<Flags>(cancel));
};

async function cancel(session: Session, flags: Flags, id: string): Promise<number> {
  const { client, out } = session;
  if (flags.run !== undefined && flags.errorGroup !== undefined)
    throw new CommandError('Give --run or --error-group, not both.');
  const isWhole = flags.run === undefined && flags.errorGroup === undefined;
  if (flags.dryRun || isWhole) {
    const runs = await openRuns(session, flags, id);
    if (runs === 0 && !flags.dryRun)
      throw new CommandError(
        `${id} has no open run: there is nothing to cancel. nightshift show ${id} shows it.`,
      );
    if (flags.dryRun) {
      await out.record({ dry_run: true, runs }, () => countOfNoun(runs, 'run'));
      out.note('Nothing was cancelled.');
      return EXIT.ok;
    }
    if (!(await session.confirm(`Cancel ${countOfNoun(runs, 'open run')} of ${id}?`))) {
      out.note('Nothing was cancelled.');
      return EXIT.ok;
    }
  }
  const batch = isWhole
    ? await client.batches.cancel(id)
    : await client.batches.cancelRuns(id, {
        ...(flags.run !== undefined && { run_ids: [...flags.run] }),
        ...(flags.errorGroup !== undefined && { error_group: flags.errorGroup }),
      });
  await out.record(batch, () => `${batch.id}  ${batch.state}`);
  out.note(`Requests at the provider are paid and stored. nightshift watch ${id} follows the end.`);
  return EXIT.ok;
}

async function openRuns({ client }: Session, { run, errorGroup }: Flags, id: string): Promise<number> {
  if (run !== undefined) return run.length;
  if (errorGroup === undefined) return openOf(await client.batches.retrieve(id));
  const { groups } = await client.batches.errors(id, { limit: 100 });
  return groups.find((group) => group.error_group === errorGroup)?.retrying ?? 0;
}
