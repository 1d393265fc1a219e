/** With a full stop, which some messages of fields have already. */
export function sentence(text: string): string {
  return text.endsWith('.') ? text : `${text}.`;
}
