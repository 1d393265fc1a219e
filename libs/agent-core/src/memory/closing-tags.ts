import type { JsonObject } from '../base/json.ts';

/** A label is a tag name; characters that would end the tag become `_`. */
export function toTagName(label: string): string {
  return label.replace(/[<>\r\n]/g, '_');
}

/** The tags of the structure that memory is shown in, in small letters: the fixed ones, and one for each label. */
export function tagNames(labels: readonly string[]): ReadonlySet<string> {
  const fixed = ['memory_blocks', 'description', 'metadata', 'warning', 'value'];
  return new Set([...fixed, ...labels.map((label) => toTagName(label).toLowerCase())]);
}

/** The text as a prompt may show it: the closing tags of its structure are written `<\/…>`. */
export function neutraliseClosingTags(text: string, tags: ReadonlySet<string>): string {
  if (!text.includes('</')) return text;
  return text.replace(/<\/([^<>]*)>/g, (closingTag, name: string) =>
    tags.has(name.trim().toLowerCase()) ? `<\\/${name}>` : closingTag,
  );
}

/**
 * Arguments with texts as they are stored, for a model that copied them from the prompt: `<\/…>` becomes `</…>` where the
 * prompt showed it for that. `stored` are the texts that it was compiled from; what one of them holds as `<\/…>` itself
 * may be meant so, and stays.
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
