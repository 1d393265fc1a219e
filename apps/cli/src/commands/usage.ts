import { Option } from 'commander';
import type { Define, Session } from '../session.ts';

interface Flags {
  readonly from?: string;
  readonly to?: string;
  readonly by: 'day' | 'model' | 'tag' | 'schedule';
}

/** Shows tokens and cost. */
export const define: Define = (command, run) => {
  command
    .option('--from <day>', 'first day, such as 2026-11-01 (default: 29 days before --to)')
    .option('--to <day>', 'last day (default: today)')
    .addOption(
      new Option('--by <group>', 'group of a row')
        .choices(['day', 'model', 'tag', 'schedule'])
        .default('day'),
    )
    .action(run<Flags>(usage));
};

async function usage({ client, out }: Session, { by, ...days }: Flags): Promise<undefined> {
  const { data, from, to } = await client.admin.usage({ ...days, group_by: by });
  await out.list(data, {
    head: [by, 'completed', 'failed', 'steps', 'input', 'cache read', 'output', 'cost usd'],
    row: (item) => [
      item.key,
      item.runs.completed,
      item.runs.failed,
      item.steps,
      item.input_tokens,
      item.cache_read_tokens,
      item.output_tokens,
      item.cost_usd,
    ],
    empty: `No usage from ${from} to ${to}.`,
  });
}
