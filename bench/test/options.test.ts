import { expect, test } from 'vitest';
import { readOptions, type Options } from '../options.ts';

function read(...args: readonly string[]): Options {
  const options = readOptions(args);
  if (options === 'help') throw new Error('The options asked for help.');
  return options;
}

test('without a flag every line is compared', () => {
  const options = read();
  expect(options).toMatchObject({
    mode: 'compare',
    runs: null,
    reps: 3,
    servers: ['stock'],
    queue: 'postgres',
  });
  expect(options.lines.map((line) => line.name)).toEqual([
    'floor-full',
    'nightshift',
    'nightshift-2',
    'nightshift-waiting',
    'nightshift-concurrent',
    'pgboss-batch',
    'bullmq',
  ]);
});

test('counts, lists and variables are parsed', () => {
  const options = read(
    ...['--runs', '500,10k,1m', '--engines', 'floor-full,nightshift', '--reps', '2', '--timeout', '30'],
    ...['--env', 'LEASE_MS=5000,PRICES_FILE=x=y', '--server', 'stock,tuned', '--queue', 'none'],
  );
  expect(options).toMatchObject({
    runs: [500, 10_000, 1_000_000],
    reps: 2,
    timeoutMs: 30_000,
    workerEnv: { LEASE_MS: '5000', PRICES_FILE: 'x=y' },
    servers: ['stock', 'tuned'],
    queue: 'none',
  });
  expect(options.lines.map((line) => line.name)).toEqual(['floor-full', 'nightshift']);
});

test('--help ignores errors in other flags', () => {
  expect(readOptions(['--help', '--runs', 'many'])).toBe('help');
});

test('--against takes one line of the product', () => {
  const mode = ['--against', 'HEAD'];
  expect(read(...mode).lines.map((line) => line.name)).toEqual(['nightshift']);
  expect(read(...mode, '--engines', 'nightshift-waiting').lines).toHaveLength(1);
});

test.each([
  ['--runs', '1k,,10k', "--runs: '1k,,10k' has an empty entry."],
  ['--runs', '', "--runs: '' has an empty entry."],
  ['--runs', '1k,1000', "--runs: '1000' is listed twice."],
  ['--runs', '0', "--runs: '0' is not a count such as 2500 or 10k."],
  ['--reps', 'two', "--reps: 'two' is not a count such as 2500 or 10k."],
  ['--engines', 'nightshift,', "--engines: 'nightshift,' has an empty entry."],
  ['--engines', 'bullmq,bullmq', "--engines: 'bullmq' is listed twice."],
  ['--engines', 'temporal', "--engines: there is no 'temporal'; there are floor-full, "],
  ['--server', 'slow', "--server: 'slow' is neither stock nor tuned."],
  ['--queue', 'kafka', "--queue: 'kafka' is none of postgres, redis, none."],
  ['--timeout', '15m', "--timeout: '15m' is not a number of seconds from 1 to 86400."],
  ['--timeout', '86401', "--timeout: '86401' is not a number of seconds from 1 to 86400."],
  ['--env', 'A', "--env: 'A' is not NAME=value."],
  ['--env', 'A=1,A=2', "--env: 'A' is listed twice."],
  [
    '--env',
    'QUICK_CALL_MS=5',
    "--env: there is no worker variable 'QUICK_CALL_MS'; see docs/reference/configuration.md",
  ],
  ['--env', 'DATABASE_URL=postgres://other', '--env: DATABASE_URL is set by the bench.'],
])('%s %s is refused, and the flag is named', (flag, value, reason) => {
  expect(() => readOptions([flag, value])).toThrow(reason);
});

test('--cost takes a file for its figures and a file of earlier ones', () => {
  expect(read('--cost', '--out', 'now.json', '--cost-before', 'then.json')).toMatchObject({
    mode: 'cost',
    runs: null,
    out: 'now.json',
    costBefore: 'then.json',
  });
});

test.each([
  [['--runs', '1k', '--runs', '2k'], '--runs is given twice.'],
  [['--status', '--compose'], '--status and --compose: one at a time.'],
  [['--status', '--reps', '3'], '--reps does not apply to --status.'],
  [['--compose', '--engines', 'nightshift'], '--engines does not apply to --compose.'],
  [['--compose', '--runs', '1k,2k'], '--compose takes one number of --runs.'],
  [['--compose', '--runs', '200k'], '--compose makes one body, of 100,000 requests at most.'],
  [['--compose', '--env', 'REQUESTS_MAX=1000'], '--env: REQUESTS_MAX is set by --compose itself.'],
  [['--against', 'HEAD', '--runs', '1k,2k'], '--against takes one number of --runs.'],
  [['--status', '--server', 'stock,tuned'], '--status takes one --server.'],
  [['--fleet', '--out', 'figures.json'], '--out does not apply to --fleet.'],
  [['--dashboard', '--env', 'LEASE_MS=5000'], '--env does not apply to --dashboard.'],
  [['--cost', '--runs', '10,20'], '--cost takes one number of --runs.'],
  [['--status', '--queue', 'redis'], '--status takes --queue postgres or none.'],
  [
    ['--against', 'HEAD', '--engines', 'bullmq'],
    "--against measures the product; 'bullmq' is another engine.",
  ],
  [
    ['--engines', 'bullmq', '--env', 'LEASE_MS=1'],
    '--env is for the product, and --engines names none of its lines.',
  ],
  [['--engines', 'bullmq', '--runs', '1k,100k'], 'none of the lines is measured with 100,000 runs.'],
])('%j is refused because a part of it would be ignored', (args, reason) => {
  expect(() => readOptions(args)).toThrow(reason);
});
