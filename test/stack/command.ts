import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** An ended command. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when the output so far matches; rejects when the command ends before. */
  untilShown(pattern: RegExp): Promise<void>;
}

/** Path of the command. */
export const COMMAND = join(import.meta.dirname, '../../apps/cli/bin/nightshift.mjs');

/** Starts the command with these variables, and no others. */
export function startCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string,
  input = '',
): Running {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(process.execPath, [COMMAND, ...args], {
    cwd,
    env: { PATH, NODE_COMPILE_CACHE, HOME: cwd, ...env },
    stdio: 'pipe',
  });
  // A command may end before it has read its input.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  let [stdout, stderr] = ['', ''];
  let look = (): void => undefined;
  child.stdout.on('data', (part: Buffer) => {
    stdout += part.toString();
    look();
  });
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString();
    look();
  });
  const ended = once(child, 'close').then(([code]) => ({ exitCode: code as number | null, stdout, stderr }));
  return {
    child,
    ended,
    untilShown: (pattern) =>
      new Promise((resolve, reject) => {
        look = () => (pattern.test(stdout + stderr) ? resolve() : undefined);
        look();
        void ended.then(() => reject(new Error(`Ended before ${pattern}: ${stdout}${stderr}`)));
      }),
  };
}
