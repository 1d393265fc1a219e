import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { readCommandLine } from './command-line.ts';
import { buildDashboard } from './dashboard/build-dashboard.ts';
import { CHROMIUM, NO_CHROMIUM, openBrowser } from './screenshots/browser.ts';
import { pagesOf } from './screenshots/pages.ts';
import { leaveUnderWay, makeSampleNight } from './screenshots/sample-night.ts';
import { createSignInLink } from './stack/sign-in-link.ts';
import { startStack, type Stack } from './stack/stack.ts';

// Takes a picture of each page of the dashboard in both themes and two widths.
const { refuse } = readCommandLine({
  name: 'screenshots',
  what: 'Writes a picture of each page of the dashboard, in both themes and two widths, to docs/images/dashboard.',
  takes: 'about two minutes',
  flags: {},
});
if (CHROMIUM === undefined) refuse(NO_CHROMIUM);

const FOLDER = join(import.meta.dirname, '../docs/images/dashboard');
const SIZES = [
  [1440, 900],
  [390, 844],
] as const;
const THEMES = ['light', 'dark'] as const;

async function takeAll(stack: Stack, browser: Browser): Promise<void> {
  const night = await makeSampleNight(stack);
  await leaveUnderWay(stack, night);
  const pages = pagesOf(night);
  for (const colorScheme of THEMES)
    for (const [width, height] of SIZES) {
      const context = await browser.newContext({
        viewport: { width, height },
        colorScheme,
        locale: 'en-GB',
        timezoneId: 'Europe/Berlin',
        reducedMotion: 'reduce',
      });
      const page = await context.newPage();
      await page.goto(await createSignInLink(stack));
      await page.waitForSelector('.rail');
      for (const [name, path] of pages) {
        await page.goto(`${stack.apiUrl}${path}`);
        await untilShown(page);
        await page.screenshot({ path: join(FOLDER, `${name}-${width}-${colorScheme}.png`) });
      }
      await context.close();
      console.log(`${width} px, ${colorScheme}: ${pages.length} pages`);
    }
}

/** Waits until nothing is being loaded. The event stream stays open, so the network is never idle. */
async function untilShown(page: Page): Promise<void> {
  await page.waitForSelector('h1');
  const loading = page.locator('#content p[role="status"]', { hasText: 'Loading' });
  while ((await loading.count()) > 0) await loading.first().waitFor({ state: 'detached' });
  // The count in the rail is read last, after the scripts that draw diffs and charts.
  await page.locator('.rail-count').waitFor();
  await page.waitForTimeout(300);
}

const dataDir = mkdtempSync(join(tmpdir(), 'nightshift-screenshots-'));
let stack: Stack | undefined;
let browser: Browser | undefined;
try {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  await buildDashboard();
  stack = await startStack({
    dataDir,
    workers: 2,
    port: 0,
    toolsDir: join(import.meta.dirname, '../samples/tools'),
    simulatorLatency: 'uniform:200-800',
    workerEnv: { POLL_INTERVAL_MS: '200', GATHER_WINDOW_MS: '50', SWEEP_INTERVAL_MS: '200' },
  });
  browser = await openBrowser();
  await takeAll(stack, browser);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await stack?.stop();
  rmSync(dataDir, { recursive: true, force: true });
}
