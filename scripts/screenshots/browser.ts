import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

/** Chromium of this machine; undefined without one. */
export const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
);

/** What to do on a machine without Chromium. */
export const NO_CHROMIUM =
  'There is no Chromium in /usr/bin. Install it, for example with `apt-get install chromium`.';

/** Starts Chromium without a window, and without requests of its own. */
export async function openBrowser(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error(NO_CHROMIUM);
  return chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--force-color-profile=srgb'],
  });
}
