/** Longer texts stay as they are: to parse them takes long. Unit: characters. */
const PARSED_MAX = 100_000;

/** Indents a text if it is JSON. */
export function indentJson(text: string): string {
  if (text.length > PARSED_MAX || !/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
