import type { FailureGroup } from '@nightshift/client';
import { wholeNumber } from '../parse.ts';
import { retriesOf } from '../retries-of.ts';
import type { Define, Session } from '../session.ts';
import { plainOf } from '../table.ts';
import { countOf, countOfNoun } from '../words.ts';

interface Flags {
  readonly limit: number;
  readonly samples?: true;
}

/** Shows the failed runs of a batch in groups. */
export const define: Define = (command, run) => {
  command
    .argument('<batch>', 'id of the batch')
    .option('--samples', 'show up to three runs of each group')
    .option('-n, --limit <count>', 'at most so many groups, the largest first', wholeNumber(), 20)
    .action(run<Flags>(errors));
};

async function errors({ client, out }: Session, { limit, samples }: Flags, id: string): Promise<undefined> {
  const { groups, groups_total: total, runs } = await client.batches.errors(id, { limit });
  if (samples && !out.isJson && groups.length > 0) await out.write(`${groups.map(sampled).join('\n')}\n`);
  else
    await out.list(groups, {
      head: ['group', 'reason', 'runs', 'retrying', 'last', 'message'],
      row: (group) => [
        group.error_group,
        group.stop_reason,
        group.runs,
        group.retrying,
        group.last_failed_at,
        group.samples[0]?.message,
      ],
      empty: 'No run failed.',
    });
  if (groups.length === 0) return;
  const next =
    (await retriesOf(client, id)) ?? `nightshift retry ${id} --error-group GROUP tries a group again.`;
  out.note(`${countOfNoun(runs, 'run')} in ${countOfNoun(total, 'group')}. ${next}`);
}

function sampled({ error_group: group, stop_reason: reason, runs, samples }: FailureGroup): string {
  const lines = samples.map(
    ({ run_id: run, custom_id: customId, message }) =>
      `  ${run}  ${plainOf(customId ?? '-')}  ${plainOf(message ?? '-')}`,
  );
  return `${group}  ${reason}  ${countOf(runs)}\n${lines.join('\n')}\n`;
}
