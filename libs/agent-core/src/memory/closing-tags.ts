import type { JsonObject } from '../base/json.ts';

/** Turns a label into a tag name; characters that would end the tag become `_`. */
export function toTagName(label: string): string {
  return label.replace(/[<>\r\n]/g, '_');
}

/** Returns the tag names of the memory section in lower case: the fixed tags and a tag for each label. */
export function tagNames(labels: readonly string[]): ReadonlySet<string> {
  const fixed = ['memory_blocks', 'memory_update', 'description', 'metadata', 'warning', 'value'];
  return new Set([...fixed, ...labels.map((label) => toTagName(label).toLowerCase())]);
}

/** Escapes the closing tags of the memory section in a text: they become `<\/…>`. */
export function neutraliseClosingTags(text: string, tags: ReadonlySet<string>): string {
  if (!text.includes('</')) return text;
  return text.replace(/<\/([^<>]*)>/g, (closingTag, name: string) =>
    tags.has(name.trim().toLowerCase()) ? `<\\/${name}>` : closingTag,
  );
}

/**
 * Unescapes closing tags that a model copied from the prompt into arguments: `<\/…>` becomes `</…>`.
 * `stored` are the texts of the prompt. A `<\/…>` of such a text itself may be meant so, and stays.
 */
export function restoreClosingTags(
  args: JsonObject,
  stored: readonly string[],
  tags: ReadonlySet<string>,
): JsonObject {
  if (!Object.values(args).some((value) => typeof value === 'string' && value.includes('<\\/'))) return args;
  const literal = new Set(namesIn(stored, /<\\\/([^<>]*)>/g));
  const isChanged = (name: string): boolean => tags.has(name.trim().toLowerCase()) && !literal.has(name);
  const restored = new Set(namesIn(stored, /<\/([^<>]*)>/g).filter(isChanged));
  const restore = (text: string): string =>
    text.replace(/<\\\/([^<>]*)>/g, (shown, name: string) => (restored.has(name) ? `</${name}>` : shown));
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, typeof value === 'string' ? restore(value) : value]),
  );
}

function namesIn(texts: readonly string[], closingTag: RegExp): readonly string[] {
  return texts.flatMap((text) => [...text.matchAll(closingTag)].map(([, name = '']) => name));
}
