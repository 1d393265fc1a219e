import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/** A command in a terminal. */
export interface Terminal {
  /** Presses keys. */
  press(keys: string): void;
  /** Resolves with the output since the last match, up to this one. Rejects if the command ends before. */
  untilShown(pattern: RegExp): Promise<string>;
  /** Exit code, and everything that the terminal showed. */
  readonly ended: Promise<{ readonly exitCode: number; readonly shown: string }>;
}

/** Opens a terminal of 40 rows and 100 columns for a command, and passes keys and output on. */
const RELAY = `
import fcntl, os, pty, select, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 100, 0, 0))
sources = [terminal, 0]
while True:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:
            data = b''
        if source == terminal and not data:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if not data:
            sources.remove(0)
        os.write(1 if source == terminal else terminal, data)
`;

/** Whether this machine can open terminals: python3 does it. */
export const hasTerminals =
  spawnSync('python3', ['-c', 'import pty, os; os.waitstatus_to_exitcode']).status === 0;

/** Starts a command in a terminal, with these variables and no others. */
export function startInTerminal(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string,
): Terminal {
  const child = spawn('python3', ['-c', RELAY, ...args], { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
  let shown = '';
  let matched = 0;
  let look = (): void => undefined;
  child.stdin.on('error', () => undefined);
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    shown += part;
    look();
  });
  const ended = once(child, 'close').then(([code]) => ({ exitCode: code as number, shown }));
  return {
    press: (keys) => child.stdin.write(keys),
    untilShown: (pattern) =>
      new Promise((resolve, reject) => {
        look = () => {
          const match = pattern.exec(shown.slice(matched));
          if (match === null) return;
          look = () => undefined;
          const until = matched + match.index + match[0].length;
          resolve(shown.slice(matched, until));
          matched = until;
        };
        look();
        void ended.then(() => reject(new Error(`Ended before ${pattern}: ${shown.slice(matched)}`)));
      }),
    ended,
  };
}
