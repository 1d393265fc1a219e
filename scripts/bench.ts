import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { reasonOf } from './command-line.ts';
import { installOwnPackages } from './own-packages.ts';

// Installs the bench's own packages, which are no part of the product, and runs it: `npm run bench --
// --help`.

const folder = join(import.meta.dirname, '../bench');
await refuseOrHelp(process.argv.slice(2));
installOwnPackages(folder, 'bench');

const bench = spawn(process.execPath, [join(folder, 'main.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
// The terminal signals the child too; this process waits until the child has stopped its servers.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => bench.kill(signal));
bench.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 1));

/** Answers `--help` and wrong flags before anything is installed. */
async function refuseOrHelp(args: readonly string[]): Promise<void> {
  const { HELP, readOptions } = (await import(join(folder, 'options.ts'))) as {
    readonly HELP: string;
    readonly readOptions: (args: readonly string[]) => unknown;
  };
  try {
    if (readOptions(args) !== 'help') return;
  } catch (error) {
    process.stderr.write(`${reasonOf(error)}\n\n${HELP}`);
    process.exit(2);
  }
  process.stdout.write(HELP);
  process.exit(0);
}
