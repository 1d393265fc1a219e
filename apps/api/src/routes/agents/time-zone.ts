import { NightshiftError } from '@nightshift/agent-core';

/**
 * Checks that a name is an IANA time zone.
 * Throws: `validation_failed`.
 */
export function assertTimeZone(name: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
  } catch {
    const message = `'${name}' is not an IANA time zone; write for example Europe/Berlin`;
    throw new NightshiftError('validation_failed', `/timezone: ${message}.`, {
      fields: [{ path: '/timezone', message }],
    });
  }
}
