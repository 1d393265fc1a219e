/** Reads the command line of the bench. */
import { parseArgs } from 'node:util';
import { VARIABLES } from '../apps/worker/src/config.ts';
import { BATCH_REQUESTS_MAX } from '../libs/agent-core/src/index.ts';
import { LINES, type Line } from './lines.ts';
import { SERVER_SETTINGS, type ServerName } from './servers.ts';

export interface Options {
  readonly mode: Mode;
  /** Git ref for `against`; empty in other modes. */
  readonly ref: string;
  /** Numbers of runs; null for the mode's default. */
  readonly runs: readonly number[] | null;
  readonly lines: readonly Line[];
  readonly reps: number;
  readonly servers: readonly ServerName[];
  readonly queue: 'postgres' | 'redis' | 'none';
  readonly workerEnv: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** File for the figures of `--cost`; null for none. */
  readonly out: string | null;
  /** File with the figures of an earlier `--cost`; null for none. */
  readonly costBefore: string | null;
  /** Kept steps of `--forget`; null: its default. */
  readonly kept: number | null;
}

export type Mode =
  | 'compare'
  | 'against'
  | 'status'
  | 'compose'
  | 'fleet'
  | 'results'
  | 'upload'
  | 'cost'
  | 'forget'
  | 'added-time'
  | 'calls'
  | 'waits'
  | 'dashboard';

/** Default sizes of the comparison. */
export const RUNS_COMPARED: readonly number[] = [1_000, 10_000];

/** Seconds of a day. */
const SECONDS_MAX = 86_400;

/** Variables of a worker that the bench sets. */
const SET_BY_THE_BENCH: readonly string[] = [
  'DATABASE_URL',
  'QUEUE_URL',
  'ANTHROPIC_API_KEY',
  'TOOLS_DIR',
  'DATA_DIR',
  'WORKER_NAME',
];
/** Variables that make `--compose` build one body of all runs. */
const SET_BY_COMPOSE: readonly string[] = ['REQUESTS_MAX', 'BODY_BYTES_MAX'];

const MODES = [
  'against',
  'status',
  'compose',
  'fleet',
  'results',
  'upload',
  'cost',
  'forget',
  'added-time',
  'calls',
  'waits',
  'dashboard',
] as const;
const OF_A_PRODUCT_SETUP = ['server', 'queue', 'env', 'timeout'];
/** Flags that each mode takes; any other flag is an error. */
const FLAGS_OF: Record<Mode, readonly string[]> = {
  compare: ['runs', 'engines', 'reps', ...OF_A_PRODUCT_SETUP],
  against: ['against', 'runs', 'engines', 'reps', ...OF_A_PRODUCT_SETUP],
  status: ['status', 'runs', ...OF_A_PRODUCT_SETUP],
  compose: ['compose', 'runs', ...OF_A_PRODUCT_SETUP],
  fleet: ['fleet', 'runs', ...OF_A_PRODUCT_SETUP],
  results: ['results', 'runs', ...OF_A_PRODUCT_SETUP],
  upload: ['upload', 'runs', 'server', 'queue', 'timeout'],
  cost: ['cost', 'cost-before', 'out', 'runs', ...OF_A_PRODUCT_SETUP],
  forget: ['forget', 'kept', 'runs', ...OF_A_PRODUCT_SETUP],
  'added-time': ['added-time', 'runs', 'env', 'timeout'],
  calls: ['calls', 'runs', 'reps'],
  waits: ['waits', 'runs', 'env', 'timeout'],
  dashboard: ['dashboard', 'runs', 'server', 'queue', 'timeout'],
};

export const HELP = `npm run bench -- [flags]

  --runs 1k,10k,100k   runs of each measurement (default 1k,10k; --against: 10k; --status, --compose, --fleet and --dashboard: 100k;
                       --results: 1m; --upload: 1m lines; --cost: 20 of each workload; --forget: 20k)
  --engines a,b        lines to measure, in this order (default: all); ${LINES.map((line) => line.name).join(', ')}
  --reps 3             interleaved repetitions of each
  --server stock,tuned settings of PostgreSQL (default stock)
  --queue postgres     queue of the product: postgres, redis, none
  --env A=1,B=2        variables of the product's workers, see docs/reference/configuration.md
  --timeout 900        seconds after which a run or a scenario counts as failed

One of these replaces the comparison; flags above that do not apply to it are refused:

  --against <git ref>  compare the CPU per step of this tree and of that ref, in turns
  --status             measure GET of a batch while it runs
  --compose            measure building one request body from ready runs
  --fleet              measure accepting a fleet beside accepting requests
  --results            measure downloading the results of a batch
  --upload             measure uploading a batch as lines beside a bare COPY of the staged rows
  --cost               bill tool loops: the product's batches beside realtime, with and without caching
    --out FILE         write the figures as JSON
    --cost-before FILE compare with the figures of another commit, and judge the goals
  --forget             measure removing a million steps beside a night, and the audit of a night on top of kept steps
    --kept 10m         steps that are kept, made by SQL
  --calls              measure the calls per second of CPU of each kind of tool, --runs calls of each (default 10k)
  --waits              measure runs whose tool waits 2 s (--runs, default 500), and a quick run behind 600 calls of 10 s
  --added-time         measure the time between a step's end at the provider and the next create
  --dashboard          measure the pages of a large batch and of a large review in Chromium
`;

/** Reads the command line. Throws an error that names the flag. */
export function readOptions(args: readonly string[]): Options | 'help' {
  const { values, tokens } = parseArgs({
    args: [...args],
    tokens: true,
    options: {
      runs: { type: 'string' },
      engines: { type: 'string' },
      reps: { type: 'string', default: '3' },
      server: { type: 'string', default: 'stock' },
      queue: { type: 'string', default: 'postgres' },
      env: { type: 'string' },
      timeout: { type: 'string', default: '900' },
      against: { type: 'string' },
      status: { type: 'boolean', default: false },
      compose: { type: 'boolean', default: false },
      fleet: { type: 'boolean', default: false },
      results: { type: 'boolean', default: false },
      upload: { type: 'boolean', default: false },
      cost: { type: 'boolean', default: false },
      'cost-before': { type: 'string' },
      out: { type: 'string' },
      forget: { type: 'boolean', default: false },
      kept: { type: 'string' },
      'added-time': { type: 'boolean', default: false },
      calls: { type: 'boolean', default: false },
      waits: { type: 'boolean', default: false },
      dashboard: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
  const twice = firstTwice(given);
  if (twice !== undefined) throw new Error(`--${twice} is given twice.`);
  const modes = MODES.filter((mode) => values[mode] !== undefined && values[mode] !== false);
  if (modes.length > 1) throw new Error(`--${modes.join(' and --')}: one at a time.`);
  const [mode = 'compare'] = modes;
  const ignored = given.find((name) => !FLAGS_OF[mode].includes(name));
  if (ignored !== undefined) throw new Error(`--${ignored} does not apply to --${mode}.`);
  const options: Options = {
    mode,
    ref: values.against ?? '',
    runs: values.runs === undefined ? null : runsOf(values.runs),
    lines: values.engines === undefined ? linesByDefault(mode) : linesOf(values.engines),
    reps: countOf('--reps', values.reps),
    servers: listOf('--server', values.server).map(serverOf),
    queue: queueOf(values.queue),
    workerEnv: values.env === undefined ? {} : environmentOf(values.env),
    timeoutMs: secondsOf('--timeout', values.timeout) * 1000,
    out: values.out ?? null,
    costBefore: values['cost-before'] ?? null,
    kept: values.kept === undefined ? null : countOf('--kept', values.kept),
  };
  if (mode === 'compare') checkComparison(options, given);
  else checkScenario(mode, options);
  return options;
}

/** Refuses sizes and flags that the comparison would ignore. */
function checkComparison(options: Options, given: readonly string[]): void {
  const { runs, lines } = options;
  for (const size of runs ?? RUNS_COMPARED) {
    if (lines.every((line) => line.runs_max < size))
      throw new Error(`--runs: none of the lines is measured with ${size.toLocaleString('en-US')} runs.`);
  }
  const ofProduct = ['queue', 'env'].find((name) => given.includes(name));
  if (ofProduct !== undefined && !lines.some(isOfProduct))
    throw new Error(`--${ofProduct} is for the product, and --engines names none of its lines.`);
}

function checkScenario(mode: Exclude<Mode, 'compare'>, options: Options): void {
  const { runs, lines, servers, queue, workerEnv } = options;
  if ((runs?.length ?? 1) > 1) throw new Error(`--${mode} takes one number of --runs.`);
  if (servers.length > 1) throw new Error(`--${mode} takes one --server.`);
  if (mode === 'compose') {
    if ((runs?.[0] ?? 0) > BATCH_REQUESTS_MAX)
      throw new Error(
        `--compose makes one body, of ${BATCH_REQUESTS_MAX.toLocaleString('en-US')} requests at most.`,
      );
    const own = SET_BY_COMPOSE.find((name) => Object.hasOwn(workerEnv, name));
    if (own !== undefined) throw new Error(`--env: ${own} is set by --compose itself.`);
  }
  if (mode === 'against') {
    if (lines.length > 1) throw new Error(`--${mode} takes one of the --engines.`);
    if (!lines.every(isOfProduct))
      throw new Error(`--${mode} measures the product; '${lines[0]?.name ?? ''}' is another engine.`);
  } else if (queue === 'redis') throw new Error(`--${mode} takes --queue postgres or none.`);
}

function isOfProduct(line: Line): boolean {
  return line.engine === 'nightshift';
}

function listOf(flag: string, text: string): readonly string[] {
  const entries = text.split(',');
  if (entries.includes('')) throw new Error(`${flag}: '${text}' has an empty entry.`);
  const twice = firstTwice(entries);
  if (twice !== undefined) throw new Error(`${flag}: '${twice}' is listed twice.`);
  return entries;
}

function firstTwice(entries: readonly string[]): string | undefined {
  return entries.find((entry, index) => entries.indexOf(entry) !== index);
}

function runsOf(text: string): readonly number[] {
  const runs = listOf('--runs', text).map((entry) => countOf('--runs', entry));
  // 1000 and 1k are one size.
  const twice = firstTwice(runs.map(String));
  if (twice !== undefined) throw new Error(`--runs: '${twice}' is listed twice.`);
  return runs;
}

function environmentOf(text: string): Readonly<Record<string, string>> {
  const pairs = listOf('--env', text).map((pair): readonly [string, string] => {
    const at = pair.indexOf('=');
    if (at < 1) throw new Error(`--env: '${pair}' is not NAME=value.`);
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  const twice = firstTwice(pairs.map(([name]) => name));
  if (twice !== undefined) throw new Error(`--env: '${twice}' is listed twice.`);
  for (const [name] of pairs) {
    if (SET_BY_THE_BENCH.includes(name)) throw new Error(`--env: ${name} is set by the bench.`);
    if (!VARIABLES.includes(name))
      throw new Error(`--env: there is no worker variable '${name}'; see docs/reference/configuration.md.`);
  }
  return Object.fromEntries(pairs);
}

/** Reads a count: `2500`, `10k`, `1m`. */
function countOf(flag: string, text: string): number {
  const match = /^(\d+)([km]?)$/.exec(text);
  const count = Number(match?.[1]) * (match?.[2] === 'k' ? 1_000 : match?.[2] === 'm' ? 1_000_000 : 1);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new Error(`${flag}: '${text}' is not a count such as 2500 or 10k.`);
  return count;
}

/** Reads seconds. Timers take less than 2^31 ms, so a day is the maximum. */
function secondsOf(flag: string, text: string): number {
  const seconds = /^\d+$/.test(text) ? Number(text) : 0;
  if (seconds < 1 || seconds > SECONDS_MAX)
    throw new Error(`${flag}: '${text}' is not a number of seconds from 1 to ${SECONDS_MAX}.`);
  return seconds;
}

function linesByDefault(mode: Mode): readonly Line[] {
  return mode === 'against' ? LINES.filter((line) => line.name === 'nightshift') : LINES;
}

function linesOf(text: string): readonly Line[] {
  return listOf('--engines', text).map((name) => {
    const line = LINES.find((candidate) => candidate.name === name);
    if (line === undefined) {
      throw new Error(
        `--engines: there is no '${name}'; there are ${LINES.map((known) => known.name).join(', ')}.`,
      );
    }
    return line;
  });
}

function serverOf(name: string): ServerName {
  if (!Object.hasOwn(SERVER_SETTINGS, name))
    throw new Error(`--server: '${name}' is neither stock nor tuned.`);
  return name as ServerName;
}

function queueOf(name: string): Options['queue'] {
  if (name !== 'postgres' && name !== 'redis' && name !== 'none') {
    throw new Error(`--queue: '${name}' is none of postgres, redis, none.`);
  }
  return name;
}
