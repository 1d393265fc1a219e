/** True for every text that holds half a surrogate pair in an escape, and for few others. */
const MAY_HOLD = /\\u[dD][89a-fA-F]/;
/** One escape of a JSON text; both halves of a pair are one. Captures a half that stands alone. */
const ESCAPE =
  /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\./g;

/**
 * A JSON text with U+FFFD for each half of a surrogate pair that stands alone: the provider's parser takes none, and refuses
 * the whole body for one. All else stays to the character, and so do the bytes in UTF-8.
 */
export function withoutLoneSurrogates(json: string): string {
  if (!MAY_HOLD.test(json)) return json;
  return json.replace(ESCAPE, (escape, lone?: string) => (lone === undefined ? escape : '\\ufffd'));
}
