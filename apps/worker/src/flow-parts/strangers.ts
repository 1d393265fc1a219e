/** Provider batches of other senders. They are remembered so that they are not read again and again. */
export interface Strangers {
  /** Whether the batch was read often enough. */
  has(providerId: string): boolean;
  /** Records a read of its first lines in which none was ours. */
  note(providerId: string): void;
}

/** Reads after which a batch counts as foreign: the first lines of one download may belong to other batches. */
const LOOKS = 3;

/** Creates a memory of the last `max` batches. */
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
