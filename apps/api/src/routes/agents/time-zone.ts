import { NightshiftError } from '@nightshift/agent-core';

/** Throws `validation_failed` for a name that is no IANA time zone. */
export function assertTimeZone(name: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
  } catch {
    const message = `'${name}' is no IANA time zone, as Europe/Berlin is one`;
    throw new NightshiftError('validation_failed', `/timezone: ${message}.`, {
      fields: [{ path: '/timezone', message }],
    });
  }
}
