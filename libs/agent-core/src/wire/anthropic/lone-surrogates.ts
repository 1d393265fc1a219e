/** Matches every text with an escaped half of a surrogate pair, and few others. */
const MAY_HOLD = /\\u[dD][89a-fA-F]/;
/** An escape of a JSON text; both halves of a pair are a single match. Captures a lone half. */
const ESCAPE =
  /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\./g;

/**
 * Replaces each lone half of a surrogate pair in a JSON text by U+FFFD.
 * The provider's parser refuses the whole body for it. All else stays unchanged, and so do the bytes in UTF-8.
 */
export function withoutLoneSurrogates(json: string): string {
  if (!MAY_HOLD.test(json)) return json;
  return json.replace(ESCAPE, (escape, lone?: string) => (lone === undefined ? escape : '\\ufffd'));
}
