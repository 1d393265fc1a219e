import type { Check } from '@nightshift/client';

/** A check of the API, or of the environment where no API answers. */
export interface Finding {
  readonly name: string;
  readonly status: Check['status'];
  readonly finding: string;
  readonly advice: string | null;
  readonly details?: unknown;
}

export function ok(name: string, finding: string): Finding {
  return { name, status: 'ok', finding, advice: null };
}

export function warning(name: string, finding: string, advice: string): Finding {
  return { name, status: 'warning', finding, advice };
}

export function failing(name: string, finding: string, advice: string): Finding {
  return { name, status: 'failing', finding, advice };
}
