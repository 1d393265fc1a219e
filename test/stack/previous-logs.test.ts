import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { keepPreviousLogs, PREVIOUS_LOGS_MAX } from '../../scripts/stack/previous-logs.ts';

let logs: string;
beforeEach(() => {
  logs = mkdtempSync(join(tmpdir(), 'nightshift-logs-'));
});
afterEach(() => {
  rmSync(logs, { recursive: true, force: true });
});

/** Starts and writes a log for each name. */
function start(run: number, ...names: readonly string[]): void {
  keepPreviousLogs(logs);
  for (const name of names) writeFileSync(join(logs, `${name}.log`), `start ${run}`);
}
const contents = (): Record<string, string> =>
  Object.fromEntries(readdirSync(logs).map((file) => [file, readFileSync(join(logs, file), 'utf8')]));

test('the logs of a bounded number of earlier starts are kept, the newest as previous', () => {
  for (let run = 1; run <= 9; run++) start(run, 'api');
  expect(PREVIOUS_LOGS_MAX).toBe(5);
  expect(contents()).toEqual({
    'api.log': 'start 9',
    'api.previous.log': 'start 8',
    'api.previous-2.log': 'start 7',
    'api.previous-3.log': 'start 6',
    'api.previous-4.log': 'start 5',
    'api.previous-5.log': 'start 4',
  });
});

test('logs of a start keep the same number, also of a process that later starts lack', () => {
  start(1, 'worker-1', 'worker-2');
  start(2, 'worker-1');
  start(3, 'worker-1');
  expect(contents()).toEqual({
    'worker-1.log': 'start 3',
    'worker-1.previous.log': 'start 2',
    'worker-1.previous-2.log': 'start 1',
    'worker-2.previous-2.log': 'start 1',
  });
  for (let run = 4; run <= 7; run++) start(run, 'worker-1');
  expect(readdirSync(logs).filter((file) => file.startsWith('worker-2'))).toEqual([]);
});

test('other files stay, and a first start has no logs', () => {
  writeFileSync(join(logs, 'notes.txt'), 'a');
  start(1);
  keepPreviousLogs(join(logs, 'none'));
  mkdirSync(join(logs, 'more'));
  start(2);
  expect(readdirSync(logs).sort()).toEqual(['more', 'notes.txt']);
});
