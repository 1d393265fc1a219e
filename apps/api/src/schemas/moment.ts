import { z } from 'zod';

/** PostgreSQL refuses time zone offsets from this many hours on. */
const OFFSET_HOURS_END = 16;

/** Restricts a time to the range of the database. */
function storable<Text extends z.ZodType<string>>(moment: Text): Text {
  return moment
    .refine((text) => !text.startsWith('0000'), 'must not be in the year 0')
    .refine((text) => offsetHoursOf(text) < OFFSET_HOURS_END, 'must have an offset of less than 16 hours');
}

function offsetHoursOf(text: string): number {
  return Number(/[+-](\d\d):\d\d$/.exec(text)?.[1] ?? 0);
}

/** A time with its time zone. */
export const moment = storable(
  z.iso.datetime({ offset: true, error: 'must be a time such as 2030-01-31T06:00:00Z' }),
);

/** A time in an answer, in UTC. Its format is documented and not checked. */
export const shownTime = z.string().meta({ format: 'date-time' });

/** A time or a day; UTC without a time zone. */
export const momentOrDay = storable(z.union([z.iso.datetime({ offset: true, local: true }), z.iso.date()]));
