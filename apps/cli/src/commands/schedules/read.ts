import type { Schedule, SchedulePreview, ScheduleTick } from '@nightshift/client';
import { CommandError } from '../../failure.ts';
import { renderFields } from '../../fields.ts';
import { wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import type { Cell } from '../../table.ts';
import { plainOf } from '../../table.ts';
import { take } from '../../take.ts';

interface LimitFlags {
  readonly limit: number;
}

interface PreviewFlags {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly count: number;
}

/** Adds `ls`, `show`, `preview` and `ticks`. */
export const defineRead: Define = (command, run) => {
  command
    .command('ls')
    .description('list schedules')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 50)
    .action(run<LimitFlags>(list));
  command
    .command('show')
    .description('show a schedule')
    .argument('<schedule>', 'id of the schedule')
    .action(run(show));
  command
    .command('preview')
    .description('show the next times of a schedule, or of a rule')
    .argument('[schedule]', 'id of the schedule')
    .option('--cron <rule>', "rule, such as '0 2 * * *'")
    .option('--time-zone <zone>', 'time zone of the rule, such as Europe/Berlin (default: UTC)')
    .option('-n, --count <count>', 'so many times', wholeNumber(), 5)
    .action(run<PreviewFlags>(preview));
  command
    .command('ticks')
    .description('list the past ticks of a schedule, latest first')
    .argument('<schedule>', 'id of the schedule')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 50)
    .action(run<LimitFlags>(ticks));
};

async function list({ client, out }: Session, { limit }: LimitFlags): Promise<undefined> {
  await out.list(take(client.schedules.list({ limit: Math.min(limit, 100) }), limit), {
    head: ['id', 'name', 'state', 'rule', 'time zone', 'next', 'last'],
    row: (schedule) => [
      schedule.id,
      schedule.name,
      schedule.state,
      schedule.cron,
      schedule.time_zone,
      schedule.next_ticks[0],
      schedule.last_tick?.outcome,
    ],
    empty: 'No schedules. Make one with nightshift schedules create FILE.',
  });
}

async function show({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const schedule = await client.schedules.retrieve(id);
  await out.record(schedule, () => renderSchedule(schedule));
}

/** Renders a schedule in fields. */
export function renderSchedule(schedule: Schedule): string {
  return renderFields([
    ['id', schedule.id],
    ['name', schedule.name],
    ['state', schedule.state],
    ['reason', schedule.state_reason],
    ['rule', `${schedule.cron}  (${schedule.time_zone}: ${schedule.description})`],
    ['next', schedule.next_ticks.join('\n')],
    ['last tick', schedule.last_tick === null ? null : tickCells(schedule.last_tick).join('  ')],
    ['overlap', schedule.overlap],
    ['catch up', `${schedule.catch_up_window_s} s`],
    ['jitter', `${schedule.jitter_s} s`],
    ['ends', schedule.ends_at],
    ['budget', schedule.max_cost_usd_per_month],
    ['spent', schedule.spent_usd_this_month],
    ['revision', String(schedule.revision)],
    ['body', JSON.stringify(schedule.body, null, 2)],
  ]);
}

async function preview(
  { client, out }: Session,
  { cron, timeZone, count }: PreviewFlags,
  id?: string,
): Promise<undefined> {
  if ((id === undefined) === (cron === undefined))
    throw new CommandError(
      "Name a schedule, or a rule such as --cron '0 2 * * *' --time-zone Europe/Berlin.",
    );
  const shown: SchedulePreview =
    id === undefined
      ? await client.schedules.previewRule({ cron: cron ?? '', time_zone: timeZone ?? 'UTC', count })
      : await client.schedules.preview(id, { count });
  await out.record(shown, () => [plainOf(shown.description), ...shown.next_ticks].join('\n'));
}

async function ticks({ client, out }: Session, { limit }: LimitFlags, id: string): Promise<undefined> {
  await out.list(take(client.schedules.ticks(id, { limit: Math.min(limit, 100) }), limit), {
    head: ['due', 'outcome', 'by', 'batch', 'reason'],
    row: tickCells,
    empty: 'No ticks yet. nightshift schedules run makes a batch now.',
  });
}

/** Returns the cells of a tick. */
export function tickCells(tick: ScheduleTick): readonly Cell[] {
  const reason = [tick.reason, tick.message].filter((text) => text !== null).join(': ');
  return [tick.due_at, tick.outcome, tick.is_manual ? 'request' : 'rule', tick.job_id, reason];
}
