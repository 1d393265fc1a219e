import { refuse, type Refusal } from './refusal.ts';

const PATH_PREFIX = /^\/?memories\//;
/**
 * Maximum length of a label.
 * Unit: characters.
 */
const LABEL_CHARS_MAX = 100;

/**
 * Reads the label from a path of the `memory` tool: the part after an optional `/memories/`, trimmed.
 * Slashes belong to the label, for every command alike.
 */
export function labelOfPath(path: string): string {
  return path.trim().replace(PATH_PREFIX, '').replace(/^\//, '').trim();
}

/** Returns null when a new block may have this label. */
export function checkNewLabel(label: string): Refusal | null {
  if (label === '') return refuse('A memory block needs a label; it is empty.');
  if ([...label].length > LABEL_CHARS_MAX || /[\r\n]/.test(label)) {
    return refuse(`A label is one line of at most ${LABEL_CHARS_MAX} characters. Choose a shorter one.`);
  }
  return null;
}
