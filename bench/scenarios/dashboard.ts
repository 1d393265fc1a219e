/** Measures the dashboard on a large batch and a large review, in Chromium. */
import { loadavg } from 'node:os';
import type { Browser, BrowserContext } from 'playwright-core';
import pg from 'pg';
import { buildDashboard } from '../../scripts/dashboard/build-dashboard.ts';
import { openBrowser } from '../../scripts/screenshots/browser.ts';
import { createSignInLink } from '../../scripts/stack/sign-in-link.ts';
import { stoppedAtEnd } from '../ending.ts';
import { heapMb, longestTask, timeToFirst, type LongestTask } from '../measure/page-figures.ts';
import { spreadOf, type Spread } from '../measure/statistics.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';
import { addEvent, endRun, LIVE_BATCH, REVIEW_BATCH, storeDashboardData } from './dashboard-data.ts';
import { setUpProduct } from './product-setup.ts';
import { API_KEY, startApi } from './status.ts';

const RUNS_DEFAULT = 100_000;
/** Loads of each page, each with an empty cache of the browser. */
const LOADS = 5;
/** Rows of the runs that are scrolled through. */
const SCROLLED = 5_000;
/** Ten minutes of a live page, which reads its batch each second. */
const LIVE_READS = 600;
/** Reads between two events of the batch. */
const EVENT_EVERY = 10;
/** Part of a second by which the clock of the live page is moved. */
const MOVED_MS = 500;
/** Pixels of a turn of the wheel. */
const WHEEL = 600;

const LIST = 'table[aria-label="Runs"]';
const PAGES = [
  ['batches', '/batches', 'table[aria-label="Batches"] tbody a'],
  ['batch with its runs', `/batches/job-${LIVE_BATCH}`, `${LIST} tbody a`],
  ['review', `/review/job-${REVIEW_BATCH}`, '.review-row'],
  ['memories', '/memories', 'table[aria-label="Agents"] tbody a'],
] as const;

export async function dashboard(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  const data = { runs, held: Math.ceil(runs / 10), kinds: Math.ceil(runs / 100) };
  await buildDashboard();
  const browser = await openBrowser();
  const close = stoppedAtEnd(() => browser.close());
  try {
    const setup = await setUpProduct(bench, data.held);
    const client = new pg.Client({ connectionString: setup.context.url });
    try {
      await client.connect();
      bench.say(`dashboard: storing ${runs} runs and ${data.held} held changes`);
      await storeDashboardData(client, data);
      const api = await startApi({
        databaseUrl: setup.context.url,
        queueUrl: setup.store.queueUrl,
        dataDir: setup.context.dir,
      });
      try {
        return await measure({ bench, browser, client, apiUrl: api.url, ...data });
      } finally {
        await api.stop();
      }
    } finally {
      await client.end();
      await setup.stop();
    }
  } finally {
    await close();
  }
}

interface Measuring {
  readonly bench: Bench;
  readonly browser: Browser;
  readonly client: pg.Client;
  readonly apiUrl: string;
  readonly runs: number;
  readonly held: number;
  readonly kinds: number;
}

async function measure(on: Measuring): Promise<ScenarioResult> {
  const { bench, browser, runs, held, kinds } = on;
  const [load = 0] = loadavg();
  const session = await signIn(on);
  const firsts: Spread[] = [];
  for (const [name, path, selector] of PAGES) {
    bench.say(`dashboard: ${LOADS} loads of ${name}`);
    const times: number[] = [];
    for (let load = 0; load < LOADS; load++) {
      const context = await browser.newContext({ storageState: session });
      const first = timeToFirst(context, `${on.apiUrl}${path}`, selector);
      times.push(await within(bench.options.timeoutMs, `The first row of ${name}`, first));
      await context.close();
    }
    firsts.push(spreadOf(times));
  }
  const context = await browser.newContext({ storageState: session });
  const live = await scrollRunsAndStay(on, context);
  const review = await scrollAndAccept(on, context);
  await context.close();
  const slowest = Math.max(...firsts.map(({ median }) => median));
  const longest = Math.max(live.longest.wallMs, review.longest.wallMs);
  const tasksOf = ({ wallMs, cpuMs }: LongestTask): string[] => [wallMs, cpuMs].map(digits);
  return {
    title: `Pages of a batch of ${runs} runs with ${kinds} kinds of errors, and of ${held} held changes`,
    table: {
      head: ['page', 'first row ms', 'min..max', 'rows scrolled', 'longest task ms', 'of CPU', 'heap MB'],
      rows: PAGES.map(([name], place) => {
        const { median, min, max } = firsts[place] ?? spreadOf([]);
        const first = [name, digits(median), `${digits(min)}..${digits(max)}`];
        if (place === 1)
          return [...first, String(live.rows), ...tasksOf(live.longest), digits(live.heapAfterMb)];
        return place === 2
          ? [...first, String(held), ...tasksOf(review.longest), digits(review.heapMb)]
          : first;
      }),
    },
    figures: { load, runs, held, kinds, firsts, live, review },
    goals: [
      {
        goal: 'first row under 1.5 s, by the median of each page',
        measured: `${digits(slowest)} ms`,
        met: slowest < 1_500,
      },
      {
        goal: 'no task over 100 ms while scrolling',
        measured: `${digits(longest)} ms`,
        met: longest <= 100,
      },
      {
        goal: 'heap of the batch under 150 MB after ten minutes live',
        measured: `${digits(live.heapAfterMb)} MB`,
        met: live.heapAfterMb < 150,
      },
    ],
    notes: [
      `Accepting ${held} changes by filter took ${digits(review.acceptSeconds)} s, after a dry run of ${digits(review.dryRunSeconds)} s.`,
      `Ten minutes live, with the clock of the page moved: ${LIVE_READS} reads of the batch in ${digits(live.tookSeconds)} s, with a run that ended ` +
        `before each, and an event every ${EVENT_EVERY}. The heap was ${digits(live.heapBeforeMb)} MB before.`,
      `The load average of the machine was ${digits(load)} when the measurement began: other programs make times longer.`,
    ],
  };
}

async function signIn({ browser, apiUrl }: Measuring) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(await createSignInLink({ apiUrl, apiKey: API_KEY }));
  await page.locator('.rail').waitFor();
  const session = await context.storageState();
  await context.close();
  return session;
}

interface Live {
  readonly rows: number;
  readonly longest: LongestTask;
  readonly heapBeforeMb: number;
  readonly heapAfterMb: number;
  readonly tookSeconds: number;
}

/** Scrolls through runs of the batch, then lets its page live for ten minutes. */
async function scrollRunsAndStay(on: Measuring, context: BrowserContext): Promise<Live> {
  const { bench, browser, client, apiUrl } = on;
  const page = await context.newPage();
  await page.goto(`${apiUrl}/batches/job-${LIVE_BATCH}`);
  await page.locator(`${LIST} tbody a`).first().waitFor();
  bench.say('dashboard: scrolling through runs');
  const rowsOf = async (): Promise<number> => Number(await page.locator(LIST).getAttribute('aria-rowcount'));
  const wanted = Math.min(SCROLLED, on.runs);
  const scrolling = longestTask(browser, page, async () => {
    await page.mouse.move(700, 400);
    while ((await rowsOf()) < wanted) await page.mouse.wheel(0, WHEEL);
  });
  const longest = await within(bench.options.timeoutMs, 'Scrolling', scrolling);
  const [rows, heapBeforeMb] = [await rowsOf(), await heapMb(page)];
  bench.say(`dashboard: ${LIVE_READS} reads of the live page`);
  const from = performance.now();
  await page.clock.install();
  let reads = 0;
  page.on('response', (response) => {
    if (response.url().endsWith(`job-${LIVE_BATCH}`)) reads++;
  });
  for (let told = 0; reads < LIVE_READS;) {
    await endRun(client);
    if (reads >= told + EVENT_EVERY) {
      told = reads;
      await addEvent(client);
    }
    await page.clock.runFor(MOVED_MS);
  }
  const tookSeconds = (performance.now() - from) / 1_000;
  const heapAfterMb = await heapMb(page);
  await page.close();
  return { rows, longest, heapBeforeMb, heapAfterMb, tookSeconds };
}

interface Reviewed {
  readonly longest: LongestTask;
  readonly heapMb: number;
  readonly dryRunSeconds: number;
  readonly acceptSeconds: number;
}

/** Scrolls through all held changes, then accepts them. */
async function scrollAndAccept(on: Measuring, context: BrowserContext): Promise<Reviewed> {
  const { bench, browser, apiUrl, held } = on;
  const page = await context.newPage();
  page.setDefaultTimeout(bench.options.timeoutMs);
  await page.goto(`${apiUrl}/review/job-${REVIEW_BATCH}`);
  await page.locator('.review-row').first().waitFor();
  bench.say('dashboard: scrolling through held changes');
  const last = page.locator('.review-list li').last();
  const scrolling = longestTask(browser, page, async () => {
    await page.locator('.review-list').hover();
    while ((await last.getAttribute('aria-posinset')) !== String(held)) await page.mouse.wheel(0, WHEEL);
  });
  const longest = await within(bench.options.timeoutMs, 'Scrolling', scrolling);
  const heap = await heapMb(page);
  bench.say('dashboard: accepting all of them');
  let from = performance.now();
  await page.getByRole('button', { name: /^Accept all / }).click();
  const accept = page
    .getByRole('alertdialog')
    .getByRole('button', { name: `Accept ${held.toLocaleString('en')}` });
  await accept.waitFor();
  const dryRunSeconds = (performance.now() - from) / 1_000;
  from = performance.now();
  await accept.click();
  await page.getByText('Nothing is left to review here.').waitFor();
  const acceptSeconds = (performance.now() - from) / 1_000;
  await page.close();
  return { longest, heapMb: heap, dryRunSeconds, acceptSeconds };
}
