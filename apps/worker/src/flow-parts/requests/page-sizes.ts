import { readRequestBytes } from '@nightshift/db';
import type { FlowDeps } from '../deps.ts';

/** So few requests are read whatever their size. */
const FEW = 20;
/** Requests that are read and encoded at a time: some at first, then as many as make about a few megabytes. */
const PAGE_FIRST = 160;
const PAGE_GROWTH_MAX = 16;
const PAGE_MAX = 2_000;
const PAGE_BYTES = 4_000_000;
/** Requests of a page whose sizes are looked up, how few of them will do, and how many pages beyond the next are looked at with it. */
const SAMPLES_PER_PAGE = 16;
const SAMPLES_MIN = 8;
const PAGES_AHEAD = 8;

/** Requests with ordinals in [from, to). */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** The size of the last request of a stretch, which stands for all of it. */
interface Sample extends Stretch {
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
      const page = { from, to: from + wanted };
      if (!isSampled(samples, page, size / SAMPLES_MIN)) {
        // Most requests are short: the first look is for pages that become as large as they may.
        const later = samples.length === 0 ? PAGE_MAX : size;
        samples = await lookAhead(deps, batchId, page, later, requests);
      }
      return fittingSize(samples, from, wanted);
    },
    learn(read, bytes) {
      const fitting = Math.floor((read * PAGE_BYTES) / Math.max(1, bytes));
      size = Math.max(1, Math.min(fitting, size * PAGE_GROWTH_MAX, PAGE_MAX));
    },
  };
}

/** Whether samples that stand for so few requests each make up the page. */
function isSampled(samples: readonly Sample[], page: Stretch, eachMax: number): boolean {
  return (
    (samples.at(-1)?.to ?? 0) >= page.to &&
    samples.every(({ from, to }) => to <= page.from || from >= page.to || to - from <= eachMax)
  );
}

/** Samples of the page, and of some behind it that are of so many requests each. */
async function lookAhead(
  deps: Pick<FlowDeps, 'db'>,
  batchId: string,
  page: Stretch,
  later: number,
  requests: number,
): Promise<readonly Sample[]> {
  const behind = { from: page.to, to: Math.min(requests, page.to + later * PAGES_AHEAD) };
  const stretches = [...cut(page, page.to - page.from), ...cut(behind, later)];
  const ordinals = stretches.map(({ to }) => to - 1);
  const bytes = await readRequestBytes(deps.db, batchId, ordinals);
  return stretches.map((stretch, index) => ({ ...stretch, bytes: bytes[index] ?? 0 }));
}

/** The stretch in stretches, {@link SAMPLES_PER_PAGE} to a page of `size`. */
function cut({ from, to }: Stretch, size: number): readonly Stretch[] {
  const stride = Math.floor(size / SAMPLES_PER_PAGE);
  return Array.from({ length: Math.ceil((to - from) / stride) }, (_, index) => ({
    from: from + index * stride,
    to: Math.min(to, from + (index + 1) * stride),
  }));
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
