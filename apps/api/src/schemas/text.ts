/** Whether a text is free of control characters, of which the database cannot hold NUL. */
export function hasNoControls(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}
