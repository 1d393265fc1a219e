/** Yields the first `count` items, and asks for no more. */
export async function* take<Item>(items: AsyncIterable<Item>, count: number): AsyncGenerator<Item, void> {
  let left = count;
  if (left <= 0) return;
  for await (const item of items) {
    yield item;
    if (--left <= 0) return;
  }
}

/** Reads all items. */
export async function allOf<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
