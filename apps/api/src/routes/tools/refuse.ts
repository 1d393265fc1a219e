import { NightshiftError } from '@nightshift/agent-core';

/** Returns the refusal of an uploaded tool: the field, and what it must be. */
export function refuse(path: string, message: string): NightshiftError {
  const sentence = /[.]$/.test(message) ? message : `${message}.`;
  return new NightshiftError('invalid_argument', `${path} ${sentence}`, { fields: [{ path, message }] });
}
