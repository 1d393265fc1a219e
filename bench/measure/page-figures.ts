/** Reads figures of pages in Chromium. */
import type { Browser, BrowserContext, Page } from 'playwright-core';

/**
 * Opens an address and returns the milliseconds from the navigation until the first element of a selector has been painted.
 * Takes a context without pages: it keeps the watch.
 */
export async function timeToFirst(context: BrowserContext, url: string, selector: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  await context.exposeFunction('tellFirst', resolve);
  await context.addInitScript(`
    const watch = new MutationObserver(() => {
      if (document.querySelector(${JSON.stringify(selector)}) === null) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => tellFirst(performance.now())));
    });
    watch.observe(document, { childList: true, subtree: true });`);
  const page = await context.newPage();
  await page.goto(url, { waitUntil: 'commit' });
  return promise;
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Units: microseconds; of a clock, and of the thread's CPU. */
  readonly dur?: number;
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** The longest task of a page, by a clock and by the CPU that its thread took. Unit: milliseconds. */
export interface LongestTask {
  readonly wallMs: number;
  readonly cpuMs: number;
}

/** Traces the main threads of pages during an action, and returns the longest task. */
export async function longestTask(
  browser: Browser,
  page: Page,
  act: () => Promise<void>,
): Promise<LongestTask> {
  await browser.startTracing(page, {
    categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'],
  });
  let trace: Buffer;
  try {
    await act();
  } finally {
    trace = await browser.stopTracing();
  }
  const { traceEvents } = JSON.parse(trace.toString()) as { readonly traceEvents: readonly TraceEvent[] };
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`;
  const main = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(threadOf),
  );
  const tasks = traceEvents.filter((event) => event.name === 'RunTask' && main.has(threadOf(event)));
  if (tasks.length === 0) throw new Error('The trace holds no task of a page.');
  return {
    wallMs: Math.max(...tasks.map(({ dur = 0 }) => dur)) / 1_000,
    cpuMs: Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000,
  };
}

/** Returns the heap of a page after a collection. Unit: megabytes. */
export async function heapMb(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.enable');
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 1e6;
}
