import { readRequestBytes } from '@nightshift/db';
import type { FlowDeps } from './deps.ts';

/** Requests that are read and encoded at a time: the first few, then as many as make about a few megabytes. */
const PAGE_FIRST = 20;
const PAGE_GROWTH_MAX = 8;
const PAGE_MAX = 1_000;
const PAGE_CHARS = 4_000_000;
/** Requests of a page whose sizes are known before it is read, and for how many such pages they are asked at once. */
const SAMPLES_PER_PAGE = 8;
const PAGES_PER_LOOK = 8;

/** Sizes of every `stride`-th request of [from, to): each stands for those up to it. */
interface Look {
  readonly from: number;
  readonly to: number;
  readonly stride: number;
  readonly bytes: readonly number[];
}

/** How many requests of a provider batch to read at a time, as they are read from the first to the last. */
export interface PageSizes {
  /** Of the page that begins at this ordinal: at least one. */
  next(from: number): Promise<number>;
  /** Tells what the page came to. */
  learn(requests: number, chars: number): void;
}

/** Pages that stay about the same number of characters, whichever conversations are long. */
export function openPageSizes(deps: Pick<FlowDeps, 'db'>, batchId: string, requests: number): PageSizes {
  let size = PAGE_FIRST;
  let look: Look | null = null;
  return {
    async next(from) {
      const wanted = Math.min(size, requests - from);
      // What those before took is the best guess for so few.
      if (wanted <= PAGE_FIRST) return wanted;
      if (look === null || look.to < from + wanted)
        look = await lookAhead(deps, batchId, from, wanted, requests);
      return fittingSize(look, from, wanted);
    },
    learn(read, chars) {
      const fitting = Math.floor((read * PAGE_CHARS) / Math.max(1, chars));
      size = Math.max(1, Math.min(fitting, size * PAGE_GROWTH_MAX, PAGE_MAX));
    },
  };
}

async function lookAhead(
  deps: Pick<FlowDeps, 'db'>,
  batchId: string,
  from: number,
  size: number,
  requests: number,
): Promise<Look> {
  const stride = Math.floor(size / SAMPLES_PER_PAGE);
  const to = Math.min(requests, from + size * PAGES_PER_LOOK);
  const ordinals = Array.from(
    { length: Math.ceil((to - from) / stride) },
    (_, index) => Math.min(to, from + (index + 1) * stride) - 1,
  );
  return { from, to, stride, bytes: await readRequestBytes(deps.db, batchId, ordinals) };
}

/** `size`, or about as many as make a page where conversations are longer than those before. */
function fittingSize(look: Look, from: number, size: number): number {
  let bytes = 0;
  for (let at = from; at < from + size;) {
    const place = Math.floor((at - look.from) / look.stride);
    const each = Math.max(1, look.bytes[place] ?? 0);
    const count = Math.min(from + size, look.from + (place + 1) * look.stride) - at;
    const fitting = Math.floor((PAGE_CHARS - bytes) / each);
    if (fitting < count) return Math.max(1, at - from + fitting);
    bytes += each * count;
    at += count;
  }
  return size;
}
