import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { openFileLog } from '../../libs/services/src/index.ts';

/** A process of the stack. Its output goes to a log file; it ends with its parent, even after SIGKILL. */
export interface StackProcess {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /**
   * Resolves with the first result of `find` for a line of standard output. Rejects with `failure` when the
   * process ends before.
   */
  firstLine<T>(find: (line: string) => T | undefined): Promise<T>;
  /** Calls `listener` for every further line of standard output. */
  onLine(listener: (line: string) => void): void;
  /** Pauses the process until `thaw`. Returns false when it has ended or is being stopped. Not on Windows. */
  freeze(): boolean;
  /** Resumes a paused process. */
  thaw(): void;
  /**
   * Ends the process with SIGTERM, and with SIGKILL after `deadlineMs` or when it is paused.
   * Default: 25,000, longer than any process here takes.
   */
  stop(deadlineMs?: number): Promise<void>;
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>;
  /** Tells whether the process has not ended. */
  alive(): boolean;
  readonly ended: Promise<number | null>;
  /** Resolves after the end, once the listeners have all lines. */
  readonly closed: Promise<unknown>;
  /** Describes the end: a signal's name, `code 1`, or why the process did not start. */
  endedBy(): string;
  /** Resolves at the end with an error for a waiting caller: the process's message and its log. */
  readonly failure: Promise<Error>;
}

/** Returns the prefix of a worker's name on leases: `starts_with(lease_owner, …)`. */
export function leaseOwnerPrefix({ name, pid }: StackProcess): string {
  return `${name}@${hostname()}:${pid}-`;
}

/** Characters of standard error kept in memory for the error of an early end. */
const COMPLAINT_MAX = 16_000;

const root = join(import.meta.dirname, '../..');

/**
 * Starts `node <nodeArguments> <entry>` and appends its output to `logFile`. Tools print there, so only the
 * owner may read it.
 */
export function startProcess(
  name: string,
  entry: string,
  env: Readonly<Record<string, string>>,
  logFile: string,
  nodeArguments: readonly string[] = [],
): StackProcess {
  mkdirSync(dirname(logFile), { recursive: true, mode: 0o700 });
  const log = openFileLog(logFile, (failing) => {
    console.error(
      failing === null
        ? `The log of ${name}, ${logFile}, is written again.`
        : `The log of ${name}, ${logFile}, cannot be written: ${failing}. ${name} goes on; lines may be lost until there is room.`,
    );
  });
  const child = spawn(process.execPath, [...nodeArguments, join(root, entry)], {
    cwd: root,
    env: { ...inherited(), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    // The terminal sends Ctrl-C to a whole process group; children are stopped by their parent, in its order.
    detached: process.platform !== 'win32',
  });
  // A write to an ended child must not end this process.
  child.stdin.on('error', () => undefined);
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    log.write(chunk);
    if (complaint.length < COMPLAINT_MAX) complaint += chunk;
  });
  const listeners = new Set<(line: string) => void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.write(`${line}\n`);
    for (const listener of listeners) listener(line);
  });
  let notSpawned: string | undefined;
  const ended = endOf(child, ({ message }) => (notSpawned = message));
  const endedBy = (): string => notSpawned ?? child.signalCode ?? `code ${child.exitCode}`;
  // Output may arrive after the exit.
  const closed = once(child, 'close').catch(() => undefined);
  void closed.then(() => log.close());
  const failure = closed.then(() => {
    const said = ownLine(complaint);
    return new Error(
      `${name} ended (${endedBy()}) before it was ready${said === '' ? '' : `: ${said}`}\nIts log: ${logFile}`,
    );
  });

  let isFrozen = false;
  let isStopping = false;
  // A paused process does not notice that its parent has ended.
  const endWithParent = (): void => void child.kill('SIGKILL');

  return {
    name,
    pid: child.pid ?? 0,
    logFile,
    ended,
    closed,
    endedBy,
    failure,
    alive: () => child.exitCode === null && child.signalCode === null,
    onLine: (listener) => void listeners.add(listener),
    firstLine: (find) =>
      new Promise((resolve, reject) => {
        const listener = (line: string): void => {
          const found = find(line);
          if (found === undefined) return;
          listeners.delete(listener);
          resolve(found);
        };
        listeners.add(listener);
        void failure.then(reject);
      }),
    freeze() {
      if (isStopping || !child.kill('SIGSTOP')) return false;
      isFrozen = true;
      process.on('exit', endWithParent);
      return true;
    },
    thaw() {
      isFrozen = false;
      process.off('exit', endWithParent);
      child.kill('SIGCONT');
    },
    async stop(deadlineMs = 25_000) {
      isStopping = true;
      child.kill(isFrozen ? 'SIGKILL' : 'SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs);
      await ended;
      clearTimeout(timer);
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Returns the line with the error of a stack trace, else the first line. */
function ownLine(complaint: string): string {
  const lines = complaint.split('\n').map((line) => line.trim());
  return lines.find((line) => /^\w*Error\b.*?: /.test(line)) ?? lines.find((line) => line !== '') ?? '';
}

async function endOf(child: ChildProcess, onError: (error: Error) => void): Promise<number | null> {
  try {
    const [code] = (await once(child, 'exit')) as [number | null];
    return code;
  } catch (error) {
    onError(error as Error);
    return null;
  }
}

/** Returns the variables that a child inherits: no key, and no URL. */
function inherited(): Record<string, string> {
  const names = [
    ...['PATH', 'HOME', 'TMPDIR', 'TEMP', 'LANG', 'TZ', 'SystemRoot'],
    ...['NODE_OPTIONS', 'NODE_COMPILE_CACHE'],
  ];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
