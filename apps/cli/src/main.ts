import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readConfig } from './config.ts';
import { EXIT } from './failure.ts';
import { endWithReader } from './output.ts';
import { runCommandLine } from './program.ts';

/** A terminal and bin/nightshift.mjs send the same Ctrl-C. */
const DOUBLE_MS = 300;

const interrupted = new AbortController();
let interruptedAt = Number.POSITIVE_INFINITY;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    // A second signal ends at once.
    if (performance.now() - interruptedAt > DOUBLE_MS) process.exit(EXIT.interrupted);
    if (interrupted.signal.aborted) return;
    interruptedAt = performance.now();
    interrupted.abort();
  });
endWithReader(process, (code) => process.exit(code));

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as {
  readonly version: string;
};
const exitCode = await runCommandLine(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interrupted.signal,
  version,
  configure: (flags) => readConfig(flags),
});
// An open input, or a request of an interrupted command, would hold the process.
process.exit(exitCode);
