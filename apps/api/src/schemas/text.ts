import { toStorableText } from '@nightshift/agent-core';
import { z } from 'zod';

/** A name of at most `max` characters; parses to its stored form. */
export function storedName(max: number) {
  return z.string().min(1).max(max).overwrite(toStorableText).min(1);
}

/** A name without surrounding blanks. */
export function trimmedName(max: number) {
  return z.string().overwrite(toStorableText).trim().min(1).max(max);
}

/** Tells whether a text has no control characters. The database cannot store NUL. */
export function hasNoControls(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}

/** Tells whether a URL has no user name or password: readers of the batch would see them. */
export function hasNoCredentials(url: string): boolean {
  const { username, password } = URL.parse(url) ?? { username: '', password: '' };
  return username === '' && password === '';
}
