import { toStorableText } from '@nightshift/agent-core';
import { z } from 'zod';

/** A name of so many characters at most; parsed, it is as it is stored, and as it is compared with others. */
export function storedName(max: number) {
  return z.string().min(1).max(max).overwrite(toStorableText).min(1);
}

/** A name without the blanks around it. */
export function trimmedName(max: number) {
  return z.string().overwrite(toStorableText).trim().min(1).max(max);
}

/** Whether a text is free of control characters, of which the database cannot hold NUL. */
export function hasNoControls(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}

/** Whether a URL names nobody: one with a name or password would show it to whoever reads the batch. */
export function hasNoCredentials(url: string): boolean {
  const { username, password } = URL.parse(url) ?? { username: '', password: '' };
  return username === '' && password === '';
}
