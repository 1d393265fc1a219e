/** Texts of code kept in memory at a time, each up to 256 KB. */
const KEPT_MAX = 64;

/** Returns the code with a hash; null when it is not stored. */
export type ReadCode = (sha256: string) => Promise<string | null>;

/** Keeps the code that was used last in memory. Simultaneous reads of one hash are one read; a failed read is forgotten. */
export function createCodeCache(read: ReadCode): ReadCode {
  const kept = new Map<string, Promise<string | null>>();
  return (sha256) => {
    const code = kept.get(sha256) ?? read(sha256);
    kept.delete(sha256);
    kept.set(sha256, code);
    const [oldest] = kept.keys();
    if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
    code.then(
      (text) => text === null && kept.delete(sha256),
      () => kept.delete(sha256),
    );
    return code;
  };
}
