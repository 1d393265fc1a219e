import { Writable } from 'node:stream';

/** Asks for a line on the terminal without showing it. The end of the input is an empty line. */
export async function askHidden(question: string, signal: AbortSignal): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({
    input: process.stdin,
    // The terminal is in raw mode, so only this output could echo the keys.
    output: new Writable({ write: (_chunk, _encoding, done) => done() }),
    terminal: true,
    historySize: 0,
  });
  // In raw mode Ctrl-C is a key; it stays a signal.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    process.stderr.write(question);
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    return await Promise.race([lines.question('', { signal }), ended]);
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}
