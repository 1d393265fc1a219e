import { Option } from 'commander';
import type { BatchRetry, FailureGroup } from '@nightshift/client';
import { addBatchFlags, batchFieldsOf, type BatchFlags } from '../batch-flags.ts';
import { choiceOptions, type ChoiceFlags } from '../batch-choices.ts';
import { EXIT } from '../failure.ts';
import { exitCodeOf, follow } from '../follow.ts';
import { makeOnce } from '../once.ts';
import { gatherList } from '../parse.ts';
import { retriesOf } from '../retries-of.ts';
import type { Define, Session } from '../session.ts';
import { countOfNoun } from '../words.ts';

interface Flags extends ChoiceFlags, BatchFlags {
  readonly run?: readonly string[];
  readonly definitions?: 'same' | 'current';
  readonly dryRun?: true;
  readonly wait?: true;
}

/** Makes a new batch of runs that failed. */
export const define: Define = (command, run) => {
  command.argument('<batch>', 'id of the batch');
  for (const option of choiceOptions()) command.addOption(option);
  addBatchFlags(command)
    .option('--run <id>', 'this run; may be repeated', gatherList)
    .addOption(
      new Option('--definitions <which>', 'current: agents as they are now').choices(['same', 'current']),
    )
    .option('--dry-run', 'count the runs by groups; makes nothing')
    .option('--wait', 'follow the new batch to its end; exit code 1 if runs failed')
    .addHelpText('after', '\nWithout a choice, all failed and expired runs are tried again.')
    .action(run<Flags>(retry));
};

async function retry(session: Session, flags: Flags, id: string): Promise<number> {
  const { client, out } = session;
  if (flags.dryRun) return count(session, flags, id);
  const body: BatchRetry = {
    ...batchFieldsOf(flags),
    ...(flags.state !== undefined && { states: [...flags.state] }),
    ...(flags.endedReason !== undefined && { ended_reasons: [...flags.endedReason] }),
    ...(flags.errorGroup !== undefined && { error_group: flags.errorGroup }),
    ...(flags.run !== undefined && { run_ids: [...flags.run] }),
    ...(flags.definitions !== undefined && { definitions: flags.definitions }),
  };
  const batch = await makeOnce(session, flags, (once) => client.batches.retry(id, body, once));
  if (!flags.wait) {
    await out.record(batch, () => batch.id);
    out.note(`Sent. nightshift watch ${batch.id} follows it.`);
    return EXIT.ok;
  }
  if (!out.isJson) await out.write(`${batch.id}\n`);
  const ended = await follow(session, batch.id);
  if (out.isJson) await out.record(ended, () => ended.id);
  return exitCodeOf(ended);
}

/** Most groups that the API lists. */
const GROUPS_MAX = 100;

async function count({ client, out }: Session, flags: Flags, id: string): Promise<number> {
  if (flags.run !== undefined) {
    await out.record({ dry_run: true, runs: flags.run.length }, () =>
      countOfNoun(flags.run?.length ?? 0, 'run'),
    );
    return EXIT.ok;
  }
  const { groups } = await client.batches.errors(id, { limit: GROUPS_MAX });
  const chosen = groups.filter((group) => isChosen(group, flags));
  await out.list(chosen, {
    head: ['group', 'reason', 'runs', 'message'],
    row: (group) => [group.error_group, group.stop_reason, group.runs, group.samples[0]?.message],
    empty: 'No run fits the choice.',
  });
  const runs = chosen.reduce((sum, group) => sum + group.runs, 0);
  const earlier = await retriesOf(client, id);
  out.note(
    `${earlier === undefined ? '' : 'At most '}${countOfNoun(runs, 'run')}. ${earlier ?? ''} Nothing was made.`.replaceAll(
      '  ',
      ' ',
    ),
  );
  return EXIT.ok;
}

/** Whether a retry takes the group. Completed runs are in no group. */
function isChosen(group: FailureGroup, { state, endedReason, errorGroup }: Flags): boolean {
  const groupState =
    group.stop_reason === 'expired' || group.stop_reason === 'cancelled' ? group.stop_reason : 'failed';
  const isAll = endedReason !== undefined || errorGroup !== undefined;
  const states = state ?? (isAll ? ['failed', 'expired', 'cancelled'] : ['failed', 'expired']);
  return (
    group.runs > 0 &&
    states.includes(groupState) &&
    (endedReason === undefined || endedReason.includes(group.stop_reason)) &&
    (errorGroup === undefined || errorGroup === group.error_group)
  );
}
