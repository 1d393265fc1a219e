import type { Batch } from '@nightshift/client';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { dayOf } from '../parts/time.tsx';
import { nightshift } from './client.ts';

/** Schedules whose names are read. */
const SCHEDULES_MAX = 200;

type Named = Pick<Batch, 'id' | 'name' | 'schedule_id' | 'created_at'>;

/** Names of schedules by id. */
export type ScheduleNames = ReadonlyMap<string, string>;

export async function readScheduleNames(): Promise<ScheduleNames> {
  const names = new Map<string, string>();
  for await (const { id, name } of nightshift.schedules.list({ limit: SCHEDULES_MAX }))
    if (names.set(id, name).size === SCHEDULES_MAX) break;
  return names;
}

export const scheduleNamesQuery = queryOptions({
  queryKey: ['schedules', 'names'],
  queryFn: readScheduleNames,
  staleTime: 60_000,
});

/** Tells whether the name of a batch is that of its schedule. */
export const isNamedBySchedule = ({ name, schedule_id }: Named): boolean =>
  name === null && schedule_id !== null;

/** Returns the name of a batch; without one its schedule and day, or its id. */
export function nameOfBatch({ id, name, schedule_id, created_at }: Named, schedules?: ScheduleNames): string {
  const schedule = schedule_id === null ? undefined : schedules?.get(schedule_id);
  return name ?? (schedule === undefined ? id : `${schedule}, ${dayOf(created_at)}`);
}

/** The same with the schedules read where they are needed; empty until there is a batch. */
export function useBatchName(batch: Named | undefined): string {
  const isNeeded = batch !== undefined && isNamedBySchedule(batch);
  const { data } = useQuery({ ...scheduleNamesQuery, enabled: isNeeded });
  return batch === undefined ? '' : nameOfBatch(batch, data);
}
