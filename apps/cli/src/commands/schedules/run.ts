import type { Schedule } from '@nightshift/client';
import { EXIT } from '../../failure.ts';
import { exitCodeOf, follow } from '../../follow.ts';
import { addOnceFlag, makeOnce, type OnceFlags } from '../../once.ts';
import type { Define, Session } from '../../session.ts';

interface PauseFlags {
  readonly reason?: string;
}

interface RunFlags extends OnceFlags {
  readonly wait?: true;
}

/** Adds `pause`, `resume` and `run`. */
export const defineRun: Define = (command, run) => {
  command
    .command('pause')
    .description('start no tick until it is resumed; batches in progress go on')
    .argument('<schedule>', 'id of the schedule')
    .option('--reason <text>', 'why; shown with the schedule')
    .action(run<PauseFlags>(pause));
  command
    .command('resume')
    .description('go on with the next tick from now')
    .argument('<schedule>', 'id of the schedule')
    .action(run(resume));
  addOnceFlag(
    command
      .command('run')
      .description('make the batch of a tick now')
      .argument('<schedule>', 'id of the schedule'),
    'tick',
  )
    .option('--wait', 'follow the batch to its end; exit code 1 if runs failed')
    .action(run<RunFlags>(runNow));
};

async function pause({ client, out }: Session, { reason }: PauseFlags, id: string): Promise<undefined> {
  const schedule = await client.schedules.pause(id, reason === undefined ? {} : { reason });
  await out.record(schedule, () => stateOf(schedule));
  out.note(`nightshift schedules resume ${id} lets it go on.`);
}

async function resume({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const schedule = await client.schedules.resume(id);
  await out.record(schedule, () => stateOf(schedule));
}

function stateOf({ id, state, next_ticks }: Schedule): string {
  return `${id}  ${state}${next_ticks[0] === undefined ? '' : `  next ${next_ticks[0]}`}`;
}

/** Prints the id of the batch. Returns 1 for a tick without a batch. */
async function runNow(session: Session, flags: RunFlags, id: string): Promise<number> {
  const { client, out } = session;
  const tick = await makeOnce(session, flags, (once) => client.schedules.runNow(id, once));
  await out.record(tick, () => tick.job_id ?? tick.outcome);
  if (tick.job_id === null) {
    out.warn(
      `The tick made no batch: ${tick.message ?? tick.reason ?? tick.outcome}. nightshift schedules show ${id} shows the schedule.`,
    );
    return EXIT.failed;
  }
  if (flags.wait === true) return exitCodeOf(await follow(session, tick.job_id));
  out.note(`nightshift watch ${tick.job_id} follows the batch.`);
  return EXIT.ok;
}
