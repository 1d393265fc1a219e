import type { HeldChange } from '@nightshift/client';

/** The texts of a held change. */
export interface Draft {
  /** The text that the agent saw. */
  readonly before: string;
  /** The proposed text. */
  readonly after: string;
}

/** Returns the texts of a held change; null if it has none, so that only the diff is left. */
export function draftOf({ values }: HeldChange): Draft | null {
  if (values?.proposed == null) return null;
  return { before: values.worked_from ?? '', after: values.proposed };
}

/** Tells whether the proposed text can be edited. */
export function isEditable({ kind }: HeldChange): boolean {
  return kind === 'revised' || kind === 'created';
}
