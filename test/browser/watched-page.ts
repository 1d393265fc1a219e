import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { createSignInLink } from '../../scripts/stack/sign-in-link.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

/** A page, and what it did that it should not. */
export interface WatchedPage {
  readonly page: Page;
  /** Goes to an address of the dashboard and waits until it has loaded. */
  open(path: string): Promise<void>;
  /** Expects no error, no report of the content policy, and no request to another server. */
  expectNoTrouble(): void;
}

/** Opens a browser's context that is signed in by a link. Its pages share the session and the cache of files. */
export async function openSignedIn(browser: Browser, stack: Stack): Promise<BrowserContext> {
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.goto(await createSignInLink(stack));
  await page.locator('.rail').waitFor();
  await page.close();
  return context;
}

/** Opens a page of the dashboard for one test. */
export async function openPage(context: BrowserContext, { apiUrl }: Stack): Promise<WatchedPage> {
  const page = await context.newPage();
  onTestFinished(() => page.close());
  page.setDefaultTimeout(10_000);
  const trouble: string[] = [];
  page.on('pageerror', ({ message }) => trouble.push(`error: ${message}`));
  page.on('console', (message) => {
    // A refused request is the API's answer, which the page shows.
    if (message.type() !== 'error' || message.text().startsWith('Failed to load resource')) return;
    trouble.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!/^(?:http:\/\/127\.0\.0\.1[:/]|data:)/.test(request.url()))
      trouble.push(`request: ${request.url()}`);
  });
  return {
    page,
    async open(path) {
      await page.goto(`${apiUrl}${path}`, { waitUntil: 'commit' });
      await page.locator('h1').waitFor();
      const loading = page.locator('#content p[role="status"]', { hasText: 'Loading' });
      while ((await loading.count()) > 0) await loading.first().waitFor({ state: 'detached' });
    },
    expectNoTrouble: () => expect(trouble).toEqual([]),
  };
}

/** Hides or shows the tab of a page, as far as the page can tell. */
export async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  const state = isHidden ? 'hidden' : 'visible';
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
    Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' });
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));`);
}
