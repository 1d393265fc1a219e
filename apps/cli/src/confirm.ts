import { CommandError } from './failure.ts';
import { plainOf } from './table.ts';

/** Asks a yes-or-no question on the terminal. The default answer is no. */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new CommandError(`${question} No terminal can answer here: add --yes to go on.`);
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({
    input: process.stdin,
    output: process.stderr,
    // Ctrl-C stays a signal.
    terminal: false,
  });
  try {
    // The end of the input (Ctrl-D) answers no question: it is a no.
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    const answer = await Promise.race([lines.question(`${plainOf(question)} [y/N] `, { signal }), ended]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}
