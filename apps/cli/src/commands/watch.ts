import { exitCodeOf, follow } from '../follow.ts';
import type { Define, Session } from '../session.ts';

/** Follows a batch to its end. */
export const define: Define = (command, run) => {
  command
    .argument('<batch>', 'id of the batch')
    .addHelpText(
      'after',
      '\nWith --json a JSON line per change. Exit code 1 if runs failed or expired, or the batch was cancelled.',
    )
    .action(run(watch));
};

async function watch(session: Session, _flags: object, id: string): Promise<number> {
  const { out } = session;
  // A slow reader of stdout is not waited for: the progress is small.
  const batch = await follow(session, id, (progress) => {
    if (out.isJson) void out.write(`${JSON.stringify(progress)}\n`);
  });
  return exitCodeOf(batch);
}
