import { readRequestBytes } from '@nightshift/db';
import type { FlowDeps } from '../deps.ts';

/** Pages of so few requests are read without sampling. */
const UNSAMPLED_MAX = 20;
/** Requests of the first page; later pages grow until they hold a few megabytes. */
const PAGE_FIRST = 160;
const PAGE_GROWTH_MAX = 16;
const PAGE_MAX = 2_000;
const PAGE_BYTES = 4_000_000;
/** Samples per page, the minimum per page, and the pages beyond the next that are sampled with it. */
const SAMPLES_PER_PAGE = 16;
const SAMPLES_MIN = 8;
const PAGES_AHEAD = 8;

/** Requests with ordinals in [from, to). */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** The size of the last request of a stretch, taken as the size of each. */
interface Sample extends Stretch {
  readonly bytes: number;
}

/** Sizes the pages of a provider batch, read from first to last. */
export interface PageSizes {
  /** Returns the number of requests of the page that begins at this ordinal: at least 1. */
  next(from: number): Promise<number>;
  /** Records the bytes of a page that was read. */
  learn(requests: number, bytes: number): void;
}

/** Creates page sizes that keep pages at about the same number of bytes, even where requests are long. */
export function openPageSizes(deps: Pick<FlowDeps, 'db'>, batchId: string, requests: number): PageSizes {
  let size = PAGE_FIRST;
  let samples: readonly Sample[] = [];
  return {
    async next(from) {
      const wanted = Math.min(size, requests - from);
      // For so few requests the size of earlier pages is the best guess.
      if (wanted <= UNSAMPLED_MAX) return wanted;
      const page = { from, to: from + wanted };
      if (!isSampled(samples, page, size / SAMPLES_MIN)) {
        // Most requests are short, so the first look assumes pages of maximum size.
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

/** Whether samples of at most `eachMax` requests each cover the page. */
function isSampled(samples: readonly Sample[], page: Stretch, eachMax: number): boolean {
  return (
    (samples.at(-1)?.to ?? 0) >= page.to &&
    samples.every(({ from, to }) => to <= page.from || from >= page.to || to - from <= eachMax)
  );
}

/** Samples the page and the next pages of `later` requests each. */
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

/** Cuts a stretch into {@link SAMPLES_PER_PAGE} parts per page of `size`. */
function cut({ from, to }: Stretch, size: number): readonly Stretch[] {
  const stride = Math.floor(size / SAMPLES_PER_PAGE);
  return Array.from({ length: Math.ceil((to - from) / stride) }, (_, index) => ({
    from: from + index * stride,
    to: Math.min(to, from + (index + 1) * stride),
  }));
}

/** Returns `size`, or a number of requests that fills about a page where requests are longer than before. */
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
