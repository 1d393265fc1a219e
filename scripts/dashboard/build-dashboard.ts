import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

const root = join(import.meta.dirname, '../..');
const project = join(root, 'apps/dashboard');
const built = join(project, 'dist');
const stampFile = join(built, '.stamp');
/** A build takes about two seconds. */
const BUILD_TIMEOUT_MS = 60_000;
const SOURCES = ['apps/dashboard/src', 'apps/dashboard/public', 'libs/client/src'];
const FILES = [
  'apps/dashboard/index.html',
  'apps/dashboard/vite.config.ts',
  'package.json',
  'package-lock.json',
];

/**
 * Builds the dashboard if its sources have changed. Returns whether it did.
 * Throws: the error of the build; the last files that were built stay.
 */
export async function buildDashboard(): Promise<boolean> {
  const stamp = stampOfSources();
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return false;
  const vite = join(root, 'node_modules/vite/bin/vite.js');
  await promisify(execFile)(process.execPath, [vite, 'build', '--logLevel', 'error'], {
    cwd: project,
    timeout: BUILD_TIMEOUT_MS,
  });
  for (const file of filesOf(built))
    if (/\.(js|css|html|svg)$/.test(file))
      writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
  writeFileSync(stampFile, stamp);
  return true;
}

function stampOfSources(): string {
  const hash = createHash('sha256');
  const files = [
    ...SOURCES.flatMap((folder) => filesOf(join(root, folder))),
    ...FILES.map((file) => join(root, file)),
  ];
  for (const file of files.sort()) hash.update(file.slice(root.length)).update(readFileSync(file));
  return hash.digest('hex');
}

function filesOf(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
