/** Adds a full stop to a text without one. */
export function sentence(text: string): string {
  return text.endsWith('.') ? text : `${text}.`;
}
