/** Most bytes of an answer, as JSON. */
export const ANSWER_BYTES_MAX = 50_000;

/** Bytes of a page of items; the rest of the answer is for what stands beside them. */
const PAGE_BYTES_MAX = 45_000;
/** Most items of a list within an item. */
const NESTED_ITEMS_MAX = 100;

/** Bounds of texts and lists, tried in this order until an answer fits. */
const TIGHTER: readonly (readonly [chars: number, items: number])[] = [
  [40_000, NESTED_ITEMS_MAX],
  [8_000, NESTED_ITEMS_MAX],
  [2_000, 50],
  [500, 20],
  [100, 5],
  [20, 1],
];

/** A page of a list. */
export interface Page {
  readonly items: readonly unknown[];
  /** Cursor of the next page; null on the last. */
  readonly after: string | null;
  /** Says what is missing, and how to get it. */
  readonly note?: string;
}

export interface PageOptions<Item> {
  readonly limit: number;
  /** Longest text of an item. Unit: characters. */
  readonly charsMax: number;
  readonly cursor: (item: Item) => string | number;
  /** Chooses the fields of an item. Default: all. */
  readonly show?: (item: Item) => unknown;
}

/** Takes a page of at most `limit` items, and of at most {@link ANSWER_BYTES_MAX}. Cuts long texts. */
export async function pageOf<Item>(
  list: AsyncIterable<Item>,
  { limit, charsMax, cursor, show = (item) => item }: PageOptions<Item>,
): Promise<Page> {
  const items: unknown[] = [];
  let bytes = 0;
  let isCut = false;
  let after: string | null = null;
  let hasMore = false;
  for await (const item of list) {
    const whole = show(item);
    const shown = fit(cut(whole, charsMax, NESTED_ITEMS_MAX), PAGE_BYTES_MAX);
    const size = bytesOf(shown);
    hasMore = items.length === limit || bytes + size > PAGE_BYTES_MAX;
    if (hasMore) break;
    isCut ||= bytesOf(whole) !== size;
    items.push(shown);
    bytes += size;
    after = String(cursor(item));
  }
  const notes = [
    ...(isCut ? ['Long texts are cut; a larger max_chars shows more of them.'] : []),
    ...(hasMore ? [`There are more: call again with after: ${JSON.stringify(after)}.`] : []),
  ];
  return { items, after: hasMore ? after : null, ...(notes.length > 0 && { note: notes.join(' ') }) };
}

/** Cuts texts and lists until the value fits into `bytesMax`. */
export function fit(value: unknown, bytesMax: number = ANSWER_BYTES_MAX): unknown {
  if (bytesOf(value) <= bytesMax) return value;
  for (const [chars, items] of TIGHTER) {
    const tighter = cut(value, chars, items);
    if (bytesOf(tighter) <= bytesMax) return tighter;
  }
  return { note: 'The answer is too large to show. nightshift api GET … writes it in full.' };
}

/** Cuts texts longer than `charsMax`, and lists longer than `itemsMax`; each says how much is missing. */
function cut(value: unknown, charsMax: number, itemsMax: number): unknown {
  if (typeof value === 'string')
    return value.length <= charsMax
      ? value
      : `${value.slice(0, charsMax)}… [${value.length - charsMax} more characters]`;
  if (Array.isArray(value)) {
    const kept = value.slice(0, itemsMax).map((item) => cut(item, charsMax, itemsMax));
    return value.length <= itemsMax ? kept : [...kept, `… [${value.length - itemsMax} more]`];
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, cut(field, charsMax, itemsMax)]),
  );
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
