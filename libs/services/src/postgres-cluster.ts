import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type RunAs, runsAsRoot, unprivilegedUser } from './postgres-binaries.ts';
import { isPostgresOf, processIdentity } from './process-identity.ts';

const MAJOR_VERSION = '18';

/** Creates the data directory under a temporary name and renames it, so that it is never incomplete. */
export async function initializeCluster(home: string, binDir: string, durable: boolean): Promise<void> {
  for (const name of readdirSync(home))
    // With retries: the initdb of a killed parent may still be writing.
    if (name.startsWith('initdb-'))
      rmSync(join(home, name), { recursive: true, force: true, maxRetries: 10 });
  const staging = mkdtempSync(join(home, 'initdb-'));
  const cluster = join(staging, 'cluster');
  const passwordFile = join(staging, 'password');
  const password = randomBytes(32).toString('base64url');
  const user = runsAsRoot() ? unprivilegedUser() : undefined;
  mkdirSync(cluster, { mode: 0o700 });
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (user !== undefined)
    for (const path of [staging, cluster, passwordFile]) chownSync(path, user.uid, user.gid);
  const output: Buffer[] = [];
  const child = spawn(
    join(binDir, 'initdb'),
    [
      ...[
        '-D',
        pathFor(user, cluster),
        '--username=postgres',
        '--pwfile=../password',
        '--auth=scram-sha-256',
      ],
      ...['--encoding=UTF8', '--locale=C', '--data-checksums', '--no-instructions'],
      ...(durable ? [] : ['--no-sync']),
    ],
    {
      ...user,
      cwd: cluster,
      env: { LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl-C in a terminal must reach only the parent, which waits for initdb to complete.
      detached: process.platform !== 'win32',
    },
  );
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
  const failure = await new Promise<string | undefined>((settle) => {
    child.once('error', (error) => settle(error.message));
    child.once('close', (code, signal) => settle(code === 0 ? undefined : `it ended with ${signal ?? code}`));
  });
  if (failure !== undefined) {
    rmSync(staging, { recursive: true, force: true });
    const initdbOutput = Buffer.concat(output).toString().trim();
    const advice = initdbOutput.includes('could not look up effective user ID')
      ? 'This user has no entry in /etc/passwd, which PostgreSQL asks for: add one, run as another user, or set DATABASE_URL.'
      : 'Check that the disk has room and can be written, choose another directory, or set DATABASE_URL.';
    throw new Error(
      `PostgreSQL could not make its data directory in ${home}: ${failure}\n${initdbOutput}\n${advice}`,
    );
  }
  // The password first: without data the next start begins again, but without a password the data is inaccessible.
  const ownPasswordFile = join(home, 'password');
  rmSync(ownPasswordFile, { force: true });
  writeFileSync(ownPasswordFile, password, { mode: 0o600, flush: true });
  renameSync(cluster, join(home, 'cluster'));
  rmSync(staging, { recursive: true, force: true });
}

/** Returns the user that the server must run as, the owner of its data; undefined for the present user. */
export function clusterUser(cluster: string): RunAs | undefined {
  const version = readLines(join(cluster, 'PG_VERSION'))[0];
  if (version !== MAJOR_VERSION)
    throw new Error(
      `${cluster} holds data of PostgreSQL ${version ?? '(unknown)'}, and this is PostgreSQL ${MAJOR_VERSION}. ` +
        'Move it away to start with an empty database, or set DATABASE_URL to a server of that version.',
    );
  const { uid, gid } = statSync(cluster);
  if (runsAsRoot()) return uid === 0 ? unprivilegedUser() : { uid, gid };
  if (process.getuid !== undefined && uid !== process.getuid())
    throw new Error(
      `${cluster} belongs to user ${uid}, and PostgreSQL runs only as the owner of its data. ` +
        'Start as that user (as root if root made it), or choose another directory.',
    );
  return undefined;
}

/** Stops a server of this data directory that outlived its owner. */
export async function endOrphan(cluster: string): Promise<void> {
  const pid = Number(readLines(join(cluster, 'postmaster.pid'))[0]);
  if (!Number.isSafeInteger(pid) || pid <= 0) return;
  const identity = processIdentity(pid);
  const isRunning = (): boolean => processIdentity(pid) === identity && isPostgresOf(pid, cluster);
  for (const [signal, deadlineMs] of [
    ['SIGINT', 10_000],
    ['SIGQUIT', 10_000],
  ] as const) {
    if (identity === undefined || !isRunning()) break;
    process.kill(pid, signal);
    const deadline = performance.now() + deadlineMs;
    while (isRunning() && performance.now() < deadline) await delay(15);
  }
  if (identity !== undefined && isRunning())
    throw new Error(
      `An earlier PostgreSQL, process ${pid}, still uses ${cluster} and does not stop. End it by hand.`,
    );
}

/**
 * Returns the path of the data directory for the server. For root on Linux that is its working directory in /proc, because
 * the server's user may not enter the directories above, such as /root.
 */
export function pathFor(user: RunAs | undefined, directory: string): string {
  return user !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : directory;
}

/** Reads the lines of a small file; none if it is missing. */
export function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
