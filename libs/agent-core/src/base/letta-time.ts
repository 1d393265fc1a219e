/** Formats a date as Letta's twelve-hour UTC time: `2026-11-20 09:05:09 AM UTC+0000`. */
export function toLettaTime(date: Date): string {
  const [day = '', time = ''] = date.toISOString().split('T');
  const hour = Number(time.slice(0, 2));
  const hourOfHalf = String(hour % 12 === 0 ? 12 : hour % 12).padStart(2, '0');
  return `${day} ${hourOfHalf}${time.slice(2, 8)} ${hour < 12 ? 'AM' : 'PM'} UTC+0000`;
}
