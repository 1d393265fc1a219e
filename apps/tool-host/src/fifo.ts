/** A queue that takes from its front in constant time; an array's `shift` does not. */
export interface Fifo<T> {
  readonly size: number;
  push(item: T): void;
  shift(): T | undefined;
  /** Removes and returns every item that matches, and keeps the order of the rest. */
  takeWhere(predicate: (item: T) => boolean): T[];
}

const COMPACT_AFTER = 1024;

export function createFifo<T>(): Fifo<T> {
  let items: T[] = [];
  let head = 0;
  return {
    get size() {
      return items.length - head;
    },
    push(item) {
      items.push(item);
    },
    shift() {
      if (head === items.length) return undefined;
      const item = items[head] as T;
      head += 1;
      if (head === items.length || (head >= COMPACT_AFTER && head * 2 >= items.length)) {
        items = items.slice(head);
        head = 0;
      }
      return item;
    },
    takeWhere(predicate) {
      const taken: T[] = [];
      const kept: T[] = [];
      for (let index = head; index < items.length; index += 1) {
        const item = items[index] as T;
        (predicate(item) ? taken : kept).push(item);
      }
      items = kept;
      head = 0;
      return taken;
    },
  };
}
