/** Limits on failed runs at which a batch is cancelled; the first that is reached counts. Null: no limit. */
export interface StopWhen {
  /** Number of failed runs. */
  readonly first: number | null;
  /** Share of failed runs among the ended ones, judged once `after` runs have ended. */
  readonly failure_rate: number | null;
  readonly after: number | null;
}

/** Default of {@link StopWhen.after}: a smaller sample says little. */
export const STOP_AFTER_DEFAULT = 100;

/** Returns why a batch with so many failures must be cancelled; null if it goes on. Expired runs count as failed. */
export function decideStop(
  { first, failure_rate, after }: StopWhen,
  { failed, ended }: { readonly failed: number; readonly ended: number },
): string | null {
  if (first !== null && failed >= first)
    return `Cancelled by stop_when: ${failed} runs failed, and the limit is ${first}.`;
  const least = Math.max(1, after ?? STOP_AFTER_DEFAULT);
  if (failure_rate === null || ended < least || failed < failure_rate * ended) return null;
  const percent = (share: number): string => `${Math.round(share * 1_000) / 10} %`;
  return `Cancelled by stop_when: ${failed} of ${ended} ended runs failed, and the limit is ${percent(failure_rate)}.`;
}
