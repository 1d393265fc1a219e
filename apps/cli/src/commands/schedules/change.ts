import type { Schedule, ScheduleCreate, ScheduleUpdate } from '@nightshift/client';
import { addEditFlags, changesOf, type EditFlags } from '../../edit-record.ts';
import { readJsonObject, type JsonObject } from '../../json-input.ts';
import { removeRecord } from '../../remove.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';

/** Adds `create`, `edit` and `delete`. */
export const defineChange: Define = (command, run) => {
  command
    .command('create')
    .description('make a schedule')
    .argument('<file>', 'JSON with name, cron, time_zone and body, or - for standard input')
    .action(run(create));
  addEditFlags(command.command('edit').description('change a schedule'), 'schedule').action(
    run<EditFlags>(edit),
  );
  command
    .command('delete')
    .description('delete a schedule; its batches stay')
    .argument('<schedule>', 'id of the schedule')
    .action(run(remove));
};

async function create({ client, out }: Session, _flags: object, file: string): Promise<undefined> {
  const schedule = await client.schedules.create((await readJsonObject(file)) as unknown as ScheduleCreate);
  await out.record(schedule, () => schedule.id);
  out.note(
    `Made ${plainOf(schedule.name)}, next ${schedule.next_ticks[0] ?? 'never'}. nightshift schedules run ${schedule.id} makes a batch now.`,
  );
}

function editableOf(schedule: Schedule): JsonObject {
  return {
    name: schedule.name,
    cron: schedule.cron,
    time_zone: schedule.time_zone,
    overlap: schedule.overlap,
    catch_up_window_s: schedule.catch_up_window_s,
    jitter_s: schedule.jitter_s,
    ends_at: schedule.ends_at,
    max_cost_usd_per_month:
      schedule.max_cost_usd_per_month === null ? null : Number(schedule.max_cost_usd_per_month),
    failures_max: schedule.failures_max,
    body: schedule.body,
  };
}

async function edit(session: Session, flags: EditFlags, id: string, file?: string): Promise<undefined> {
  const { client, out } = session;
  const schedule = await client.schedules.retrieve(id);
  const editable = {
    id,
    fields: editableOf(schedule),
    nullable: ['ends_at', 'max_cost_usd_per_month', 'failures_max'],
  };
  const changes = await changesOf(session, editable, flags, file);
  if (changes === undefined) {
    await out.record(schedule, () => `${id}  unchanged`);
    return;
  }
  const changed = await client.schedules.update(id, {
    ...(changes as ScheduleUpdate),
    // Refuses the edit if the schedule was changed while the editor was open.
    expected_revision: schedule.revision,
  });
  await out.record(changed, () => `${id}  ${Object.keys(changes).join(', ')}`);
}

function remove(session: Session, _flags: object, id: string): Promise<undefined> {
  return removeRecord(session, id, `Delete the schedule ${id}? No tick of it starts any more.`, () =>
    session.client.schedules.delete(id),
  );
}
