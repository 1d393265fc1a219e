import { refuse, type Refusal } from './refusal.ts';

const PATH_PREFIX = /^\/?memories\//;
/** Characters of a label. */
const LABEL_CHARS_MAX = 100;

/**
 * The label that a path of the `memory` tool names: what stands after `/memories/`, which may be left out, and spaces
 * around it. The rest is the label as it is, slashes included, for every command alike.
 */
export function labelOfPath(path: string): string {
  return path.trim().replace(PATH_PREFIX, '').replace(/^\//, '').trim();
}

/** Null when a new block may have this label. */
export function checkNewLabel(label: string): Refusal | null {
  if (label === '') return refuse('A memory block needs a label; it is empty.');
  if ([...label].length > LABEL_CHARS_MAX || /[\r\n]/.test(label)) {
    return refuse(`A label is one line of at most ${LABEL_CHARS_MAX} characters. Choose a shorter one.`);
  }
  return null;
}
