/** Milliseconds for which the same wish may arrive again: a signal to a process group comes from the group and from the parent. */
const REPEAT_MS = 1_000;

/** What a process knows of being told to end. */
export interface WishToEnd {
  /** Whether it has been told. */
  isTold(): boolean;
  /** Notes that it is told now: for the first time, to end in order; the same `again`; or to end at once, since it is meant twice. */
  tell(): 'first' | 'again' | 'at once';
}

/** Tells a second wish to end, which is one to hurry, from the first that arrives twice. */
export function createWishToEnd(now: () => number = () => performance.now()): WishToEnd {
  let toldAt: number | null = null;
  return {
    isTold: () => toldAt !== null,
    tell() {
      if (toldAt !== null) return now() - toldAt > REPEAT_MS ? 'at once' : 'again';
      toldAt = now();
      return 'first';
    },
  };
}
