import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const repository = join(import.meta.dirname, '../..');

/** The files of one package that the samples are made of, as they ship. */
export interface PackageFiles {
  name: string;
  version: string;
  /** `license` of its package.json; empty when it has none. */
  license: string;
  changelog: string;
  /** Hex SHA-256 of the changelog's bytes. */
  changelogSha256: string;
  licenseText: string;
  /** The text of a NOTICE file; empty when it has none. */
  noticeText: string;
}

/**
 * Finds `name@version` in `node_modules`, or among the packages fetched earlier. `undefined` when that
 * version is in neither, which is when `fetchPackage` is wanted.
 */
export function findPackage(source: string): PackageFiles | undefined {
  const { name, version } = splitSource(source);
  const folders = [join(repository, 'node_modules', name), fetchedFolder(source)];
  const folder = folders.find((candidate) => readVersion(candidate) === version);
  return folder === undefined ? undefined : readPackage(folder);
}

/**
 * Fetches one package with `npm pack` into `.data/samples`, where `findPackage` sees it. Nothing of the
 * package is run. Throws when npm or tar fails.
 */
export function fetchPackage(source: string): PackageFiles {
  const folder = fetchedFolder(source);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const options = { cwd: folder, encoding: 'utf8', shell: process.platform === 'win32' } as const;
  const printed = execFileSync('npm', ['pack', source, '--ignore-scripts', '--silent'], options);
  const archive = printed.trim().split('\n').at(-1) ?? '';
  execFileSync('tar', ['-xzf', archive, '--strip-components=1'], { cwd: folder });
  rmSync(join(folder, archive));
  // All that is read lies at the top.
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) rmSync(join(folder, entry.name), { recursive: true });
  }
  return readPackage(folder);
}

function splitSource(source: string): { name: string; version: string } {
  const at = source.lastIndexOf('@');
  return { name: source.slice(0, at), version: source.slice(at + 1) };
}

function fetchedFolder(source: string): string {
  return join(repository, '.data/samples', source.replaceAll('/', '+'));
}

function readVersion(folder: string): string | undefined {
  const file = join(folder, 'package.json');
  if (!existsSync(file)) return undefined;
  return (JSON.parse(readFileSync(file, 'utf8')) as { version?: string }).version;
}

function readPackage(folder: string): PackageFiles {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
  const names = readdirSync(folder).sort();
  const read = (pattern: RegExp): Buffer => {
    const name = names.find((candidate) => pattern.test(candidate));
    return name === undefined ? Buffer.alloc(0) : readFileSync(join(folder, name));
  };
  const changelog = read(/^(changelog|history|changes|release-notes)\.md$/i);
  return {
    name: String(manifest.name),
    version: String(manifest.version),
    license: typeof manifest.license === 'string' ? manifest.license : '',
    changelog: changelog.toString('utf8'),
    changelogSha256: createHash('sha256').update(changelog).digest('hex'),
    licenseText: read(/^(licen[cs]e|copying)(\.(md|txt))?$/i).toString('utf8'),
    noticeText: read(/^notice(\.(md|txt))?$/i).toString('utf8'),
  };
}
