import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { openFileLog } from '../../libs/services/src/index.ts';

/** A process of the stack. Its log lies in a file; it ends with its parent, however the parent ends. */
export interface StackProcess {
  readonly name: string;
  readonly pid: number;
  /** Where its output is. */
  readonly logFile: string;
  /** Resolves when a line of standard output makes `find` return something; rejects with `failure` if that comes first. */
  firstLine<T>(find: (line: string) => T | undefined): Promise<T>;
  /** Calls `listener` for every line of standard output from now on. */
  onLine(listener: (line: string) => void): void;
  /** Stops it where it is, until it is thawed; false when it has ended or is being stopped. Not on Windows. */
  freeze(): boolean;
  /** Lets it go on. */
  thaw(): void;
  /**
   * Ends it with SIGTERM, with SIGKILL after `deadlineMs` (default 25,000: longer than any of ours takes), and at once where
   * it is frozen.
   */
  stop(deadlineMs?: number): Promise<void>;
  /** Ends it at once, as a power cut would. */
  kill(): Promise<void>;
  /** False once it has ended. */
  alive(): boolean;
  readonly ended: Promise<number | null>;
  /** How it ended: a signal's name, `code 1`, or why it was never there. */
  endedBy(): string;
  /** Resolves when it has ended, with an error for the caller that waits: its own message and the path of its log. */
  readonly failure: Promise<Error>;
}

/** What the name begins with under which a worker holds leases: `starts_with(lease_owner, …)`. */
export function leaseOwnerPrefix({ name, pid }: StackProcess): string {
  return `${name}@${hostname()}:${pid}-`;
}

/** Characters of a process's standard error that are kept in memory, to be told if it ends. */
const COMPLAINT_MAX = 16_000;

const root = join(import.meta.dirname, '../..');

/** Starts `node <nodeArguments> <entry>`; its output is added to `logFile`, which is for the owner's eyes: tools print there. */
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
    // Ctrl-C in a terminal goes to its whole process group; children are to be stopped by their parent, in its order.
    detached: process.platform !== 'win32',
  });
  // A child that is gone must not take this process with it.
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
  // Its output may outlast the process by a moment.
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
  // A frozen process does not notice that its parent has gone.
  const endWithParent = (): void => void child.kill('SIGKILL');

  return {
    name,
    pid: child.pid ?? 0,
    logFile,
    ended,
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

/** The line that says what is wrong: that of the error in a stack trace, else the first one. */
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

/** What a child may know of this process's environment: no key, no URL that it was not given on purpose. */
function inherited(): Record<string, string> {
  const names = [
    ...['PATH', 'HOME', 'TMPDIR', 'TEMP', 'LANG', 'TZ', 'SystemRoot'],
    ...['NODE_OPTIONS', 'NODE_COMPILE_CACHE'],
  ];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
