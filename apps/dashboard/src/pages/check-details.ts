import type { Check, Checks } from '@nightshift/client';

/** Details of the check with this name. */
export type DetailsOf<Name extends Check['name']> = NonNullable<
  Extract<Check, { readonly name: Name }>['details']
>;

/** Returns the details of a check; null if the check failed itself, or an older API has none. */
export function detailsOf<Name extends Check['name']>(
  { checks }: Checks,
  name: Name,
): DetailsOf<Name> | null {
  const found = checks.find((check) => check.name === name);
  return (found?.details ?? null) as DetailsOf<Name> | null;
}
