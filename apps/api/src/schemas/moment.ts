import { z } from 'zod';

/** From here on the database takes no offset of a time zone. */
const OFFSET_HOURS_END = 16;

/** The text of a moment that the database can hold as well. */
function storable<Text extends z.ZodType<string>>(moment: Text): Text {
  return moment
    .refine((text) => !text.startsWith('0000'), 'must not be in the year 0')
    .refine((text) => offsetHoursOf(text) < OFFSET_HOURS_END, 'must have an offset of less than 16 hours');
}

function offsetHoursOf(text: string): number {
  return Number(/[+-](\d\d):\d\d$/.exec(text)?.[1] ?? 0);
}

/** A moment, with its time zone. */
export const moment = storable(
  z.iso.datetime({ offset: true, error: 'must be a time such as 2030-01-31T06:00:00Z' }),
);

/** A moment or a day; UTC without a time zone. */
export const momentOrDay = storable(z.union([z.iso.datetime({ offset: true, local: true }), z.iso.date()]));
