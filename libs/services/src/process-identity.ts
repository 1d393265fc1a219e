import { spawnSync } from 'node:child_process';
import { readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { hostname } from 'node:os';

/**
 * Names a running process in a way that survives the reuse of its pid: boot id and start time on Linux, start time
 * elsewhere. Undefined when no such process runs (a zombie does not run). On Windows only the pid is known.
 */
export function processIdentity(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  switch (process.platform) {
    case 'linux':
      return linuxIdentity(pid);
    case 'win32':
      return isAlive(pid) ? `${pid}` : undefined;
    default: {
      // ps writes the time for its reader; owner, watchdog and the next owner may be readers of different kinds.
      const started = spawnSync('ps', ['-o', 'lstart=', '-p', `${pid}`], {
        encoding: 'utf8',
        env: { LC_ALL: 'C', TZ: 'UTC' },
      }).stdout.trim();
      return started === '' ? undefined : `${pid} ${started}`;
    }
  }
}

/**
 * Where pids mean what they mean here: the machine and, on Linux, the pid namespace, of which each container has its own.
 * Elsewhere the same number is another process, or none.
 */
export function processPlace(): string {
  try {
    return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/** True when `pid` is a PostgreSQL server whose data directory is `clusterDir`; never true by its name alone. */
export function isPostgresOf(pid: number, clusterDir: string): boolean {
  try {
    if (process.platform === 'linux') {
      // A server's working directory is its data directory, however its command line spells it.
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
    // The command in parentheses may hold spaces and parentheses; what follows the last one is regular (proc(5)).
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
