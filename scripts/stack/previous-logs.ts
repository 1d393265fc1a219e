import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Starts whose logs are kept beside the present start's. */
export const PREVIOUS_LOGS_MAX = 5;

/**
 * Renames the logs of earlier starts: `<name>.log` to `<name>.previous.log`, that to `<name>.previous-2.log`, and so on.
 * Removes logs that are older than {@link PREVIOUS_LOGS_MAX} starts.
 */
export function keepPreviousLogs(logs: string): void {
  if (!existsSync(logs)) return;
  const files = readdirSync(logs).flatMap((file) => {
    const [, name, previous, start] = /^(.+?)(\.previous(?:-(\d+))?)?\.log$/.exec(file) ?? [];
    if (name === undefined) return [];
    return [{ file, name, age: previous === undefined ? 0 : Number(start ?? 1) }];
  });
  // The oldest first, so that no rename overwrites a log.
  for (const { file, name, age } of files.toSorted((a, b) => b.age - a.age)) {
    if (age >= PREVIOUS_LOGS_MAX) rmSync(join(logs, file), { force: true });
    else renameSync(join(logs, file), join(logs, `${name}.previous${age === 0 ? '' : `-${age + 1}`}.log`));
  }
}
