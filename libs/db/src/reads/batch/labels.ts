import { toStorableText } from '@nightshift/agent-core';

/** Longest label. Unit: characters. An entry of an index must stay below 2,704 bytes. */
export const LABEL_CHARS_MAX = 500;
/** Most properties of metadata that are listed. */
export const METADATA_LABELS_MAX = 64;

/** Returns the label under which batches with a tag are listed. */
export function tagLabel(tag: string): string {
  return `tag ${tag}`;
}

/** Returns the label under which batches with a property of metadata are listed; null for a structure or a long value. */
export function metadataLabel(key: string, value: unknown): string | null {
  if (typeof value === 'object' && value !== null) return null;
  const label = `metadata ${key} ${JSON.stringify(value)}`;
  return label.length > LABEL_CHARS_MAX ? null : toStorableText(label);
}
