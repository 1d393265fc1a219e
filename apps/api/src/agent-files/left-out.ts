import { NightshiftError } from '@nightshift/agent-core';

/** A part of a file that does not come over. */
export interface LeftOut {
  /** JSON Pointer into the file. */
  readonly path: string;
  readonly reason: string;
}

/** Most parts that an answer names. */
export const LEFT_OUT_MAX = 100;

/** Refuses a file of which a part would be left out. Throws: `validation_failed`. */
export function refuseLeftOut(parts: readonly LeftOut[]): void {
  const [first] = parts;
  if (first === undefined) return;
  const message = `${first.path} cannot be imported: ${first.reason}. Remove it, or leave \`strict\` out. Nothing was stored.`;
  throw new NightshiftError('validation_failed', message, {
    fields: parts.slice(0, LEFT_OUT_MAX).map(({ path, reason }) => ({ path, message: reason })),
    fields_total: parts.length,
  });
}

/** Whether a value says nothing, so that nothing is lost without it. */
export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
