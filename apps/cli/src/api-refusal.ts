import type { NightshiftApiError } from '@nightshift/client';

/** Tells whether the API refused with one of the codes. By name: the client is not loaded for --help. */
export function isRefusal(error: unknown, ...codes: readonly NightshiftApiError['code'][]): error is Error {
  if (!(error instanceof Error) || error.name !== 'NightshiftApiError') return false;
  return codes.length === 0 || codes.includes((error as Error & Pick<NightshiftApiError, 'code'>).code);
}
