import { spawnSync } from 'node:child_process';
import { readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { hostname } from 'node:os';

/**
 * Identifies a running process even if its pid is reused: by boot id and start time on Linux, by start time elsewhere.
 * On Windows only the pid is known. Undefined when no such process runs; a zombie does not run.
 */
export function processIdentity(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  switch (process.platform) {
    case 'linux':
      return linuxIdentity(pid);
    case 'win32':
      return isAlive(pid) ? `${pid}` : undefined;
    default: {
      // A fixed locale and time zone, because ps formats the time by its environment.
      const started = spawnSync('ps', ['-o', 'lstart=', '-p', `${pid}`], {
        encoding: 'utf8',
        env: { LC_ALL: 'C', TZ: 'UTC' },
      }).stdout.trim();
      return started === '' ? undefined : `${pid} ${started}`;
    }
  }
}

/** Identifies the machine and, on Linux, the pid namespace: in another one the same pid is another process. */
export function processPlace(): string {
  try {
    return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/** True when `pid` is a PostgreSQL server with the data directory `clusterDir`. */
export function isPostgresOf(pid: number, clusterDir: string): boolean {
  try {
    if (process.platform === 'linux') {
      // The working directory of a server is its data directory; the command line may use another path.
      const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
      return name === 'postgres' && readlinkSync(`/proc/${pid}/cwd`) === realpathSync(clusterDir);
    }
    const command = spawnSync('ps', ['-o', 'command=', '-p', `${pid}`], { encoding: 'utf8' }).stdout;
    return command.includes('postgres') && command.includes(`-D ${clusterDir} `);
  } catch {
    return false;
  }
}

function linuxIdentity(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command in parentheses may itself hold spaces and parentheses; regular fields follow the last one (proc(5)).
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${pid} ${rest[18] ?? ''} ${bootId}`;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
