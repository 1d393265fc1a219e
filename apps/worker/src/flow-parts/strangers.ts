/** Batches of the provider whose lines have shown no nonce of ours, so that they are not read again and again. */
export interface Strangers {
  /** Whether the batch has been read often enough. */
  has(providerId: string): boolean;
  /** Notes that its first lines were read and none was ours. */
  note(providerId: string): void;
}

/** Looks after which a batch is a stranger's: the first lines of one download may be others'. */
const LOOKS = 3;

/** Remembers the last `max` batches. */
export function createStrangers(max = 10_000): Strangers {
  const looks = new Map<string, number>();
  return {
    has: (providerId) => (looks.get(providerId) ?? 0) >= LOOKS,
    note(providerId) {
      const before = looks.get(providerId) ?? 0;
      looks.delete(providerId);
      looks.set(providerId, before + 1);
      const [oldest] = looks.keys();
      if (looks.size > max && oldest !== undefined) looks.delete(oldest);
    },
  };
}
