import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';
import { onceOnly, type OnceOptions } from './once.ts';

/** The operations of schedules. */
export function schedulesOf(on: Call) {
  const at = (id: string) => ({ ...on, path: { schedule_id: id } });
  return {
    create: (body: types.ScheduleCreate) => dataOf(sdk.createSchedule({ ...on, body })),
    retrieve: (id: string) => dataOf(sdk.retrieveSchedule(at(id))),
    list: (query: types.ListSchedulesData['query'] = {}) =>
      itemsOf((after) => sdk.listSchedules({ ...on, query: { ...query, ...after } })),
    update: (id: string, body: types.ScheduleUpdate) => dataOf(sdk.updateSchedule({ ...at(id), body })),
    delete: (id: string) => dataOf(sdk.deleteSchedule(at(id))),
    /** Pauses until it is resumed; the reason is shown with the schedule. */
    pause: (id: string, body: types.SchedulePause = {}) => dataOf(sdk.pauseSchedule({ ...at(id), body })),
    resume: (id: string) => dataOf(sdk.resumeSchedule(at(id))),
    /** Makes the batch of a tick now. */
    runNow: (id: string, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.runSchedule({ ...at(id), headers: onceOnly(idempotencyKey) })),
    preview: (id: string, query: types.PreviewScheduleData['query'] = {}) =>
      dataOf(sdk.previewSchedule({ ...at(id), query })),
    previewRule: (body: types.SchedulePreviewCreate) => dataOf(sdk.previewRule({ ...on, body })),
    ticks: (id: string, query: types.ListScheduleTicksData['query'] = {}) =>
      itemsOf((after) => sdk.listScheduleTicks({ ...at(id), query: { ...query, ...after } })),
  };
}
