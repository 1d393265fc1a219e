import { Writable } from 'node:stream';
import { serve, type Answerer, type Received } from '../../../libs/client/test/server.ts';
import type { Screen } from '../src/output.ts';
import { runCommandLine } from '../src/program.ts';

/** What a command line has written. */
export interface Ran {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface TestCommand {
  /** Runs a command line. */
  readonly run: (...args: readonly string[]) => Promise<Ran>;
  readonly received: readonly Received[];
}

/** Starts an API that answers as told, and the command for it, without a terminal. */
export async function serveCommand(answer: Answerer): Promise<TestCommand> {
  const { url, received } = await serve(answer);
  const run = async (...args: readonly string[]): Promise<Ran> => {
    const [stdout, stderr] = [collect(), collect()];
    const exitCode = await runCommandLine(args, {
      stdout: stdout.stream,
      stderr: stderr.stream,
      signal: new AbortController().signal,
      version: '0.0.0',
      configure: () => ({
        url: { value: url, source: 'flag' },
        apiKey: { value: 'ns_key', source: 'flag' },
        file: '/dev/null',
        dataDir: undefined,
        hasColor: false,
        editor: 'false',
        columns: undefined,
      }),
    });
    return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
  };
  return { run, received };
}

function collect(): { readonly stream: Screen; readonly text: () => string } {
  let text = '';
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString();
      done();
    },
  });
  return { stream, text: () => text };
}
