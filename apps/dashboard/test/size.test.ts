import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';

const built = join(import.meta.dirname, '../dist');
const assets = join(built, 'assets');

/** Largest sizes. Unit: bytes, gzipped. */
const FIRST_PAGE_MAX = 260_000;
const ALL_PAGES_MAX = 420_000;

const sizeOf = (file: string): number => gzipSync(readFileSync(file), { level: 9 }).length;
const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);

/** Names of the files that a file of the build names in these ways. */
function namesIn(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name);
}

/** Adds a script and all that it imports before it runs. */
function addScript(name: string, found: Set<string>): void {
  if (found.has(name)) return;
  found.add(name);
  if (!name.endsWith('.js')) return;
  const text = readFileSync(join(assets, name), 'utf8');
  for (const imported of namesIn(text, /(?:from|import)\s*["'`]\.\/([^"'`]+)["'`]/g))
    addScript(imported, found);
}

function filesOfFirstPage(): ReadonlySet<string> {
  const found = new Set<string>();
  const index = readFileSync(join(built, 'index.html'), 'utf8');
  for (const name of namesIn(index, /(?:src|href)="\/assets\/([^"]+)"/g)) addScript(name, found);
  for (const name of readdirSync(assets)) if (/^overview-.*\.(?:js|css)$/.test(name)) addScript(name, found);
  return found;
}

test('the dashboard is built', () => {
  expect(existsSync(join(built, 'index.html')), 'Run `npm run build-dashboard` first.').toBe(true);
});

test(`the first page is at most ${FIRST_PAGE_MAX} bytes`, () => {
  const files = filesOfFirstPage();
  expect([...files].some((name) => name.startsWith('overview-'))).toBe(true);
  const sizes = [...files].map((name) => sizeOf(join(assets, name)));
  expect(sizeOf(join(built, 'index.html')) + sum(sizes)).toBeLessThanOrEqual(FIRST_PAGE_MAX);
});

test(`all pages together are at most ${ALL_PAGES_MAX} bytes`, () => {
  const files = readdirSync(assets).filter((name) => /\.(?:js|css)$/.test(name));
  expect(files.length).toBeGreaterThan(1);
  expect(sum(files.map((name) => sizeOf(join(assets, name))))).toBeLessThanOrEqual(ALL_PAGES_MAX);
});
