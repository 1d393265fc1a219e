import { readRequestBytes } from '@nightshift/db';
import type { FlowDeps } from './deps.ts';

/** So few requests are read whatever their size. */
const FEW = 20;
/** Requests that are read and encoded at a time: some at first, then as many as make about a few megabytes. */
const PAGE_FIRST = 160;
const PAGE_GROWTH_MAX = 16;
const PAGE_MAX = 2_000;
const PAGE_BYTES = 4_000_000;
/** Requests of a page whose sizes are known before it is read, and how many pages beyond the next are looked at with it. */
const SAMPLES_PER_PAGE = 16;
const PAGES_AHEAD = 8;

/** The size of a request, which stands for those before it from the last sample on. */
interface Sample {
  /** Ordinal of the request behind it. */
  readonly to: number;
  readonly bytes: number;
}

/** How many requests of a provider batch to read at a time, as they are read from the first to the last. */
export interface PageSizes {
  /** Of the page that begins at this ordinal: at least one. */
  next(from: number): Promise<number>;
  /** Tells what the page came to. */
  learn(requests: number, bytes: number): void;
}

/** Pages that stay about the same number of bytes, whichever requests are long. */
export function openPageSizes(deps: Pick<FlowDeps, 'db'>, batchId: string, requests: number): PageSizes {
  let size = PAGE_FIRST;
  let samples: readonly Sample[] = [];
  return {
    async next(from) {
      const wanted = Math.min(size, requests - from);
      // What those before took is the best guess for so few.
      if (wanted <= FEW) return wanted;
      const known = samples.at(-1)?.to ?? 0;
      if (known < from + wanted) samples = await lookAhead(deps, batchId, from, wanted, requests);
      return fittingSize(samples, from, wanted);
    },
    learn(read, bytes) {
      const fitting = Math.floor((read * PAGE_BYTES) / Math.max(1, bytes));
      size = Math.max(1, Math.min(fitting, size * PAGE_GROWTH_MAX, PAGE_MAX));
    },
  };
}

/** Samples of the next page, and of some that are as large as pages become. */
async function lookAhead(
  deps: Pick<FlowDeps, 'db'>,
  batchId: string,
  from: number,
  size: number,
  requests: number,
): Promise<readonly Sample[]> {
  const page = from + size;
  const end = Math.min(requests, page + PAGE_MAX * PAGES_AHEAD);
  const places = [
    ...placesIn(from, page, Math.floor(size / SAMPLES_PER_PAGE)),
    ...placesIn(page, end, PAGE_MAX / SAMPLES_PER_PAGE),
  ];
  const ordinals = places.map((to) => to - 1);
  const bytes = await readRequestBytes(deps.db, batchId, ordinals);
  return places.map((to, index) => ({ to, bytes: bytes[index] ?? 0 }));
}

/** Ends of stretches of `stride` that together are [from, to). */
function placesIn(from: number, to: number, stride: number): readonly number[] {
  return Array.from({ length: Math.ceil((to - from) / stride) }, (_, index) =>
    Math.min(to, from + (index + 1) * stride),
  );
}

/** `size`, or about as many as make a page where requests are longer than those before. */
function fittingSize(samples: readonly Sample[], from: number, size: number): number {
  let bytes = 0;
  let at = from;
  for (const sample of samples) {
    const count = Math.min(from + size, sample.to) - at;
    if (count <= 0) continue;
    const each = Math.max(1, sample.bytes);
    const fitting = Math.floor((PAGE_BYTES - bytes) / each);
    if (fitting < count) return Math.max(1, at - from + fitting);
    bytes += each * count;
    at += count;
  }
  return size;
}
