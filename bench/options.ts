/** The command line of the bench. */
import { parseArgs } from 'node:util';
import { LINES, type Line } from './lines.ts';
import { SERVER_SETTINGS, type ServerName } from './servers.ts';

export interface Options {
  readonly mode: 'compare' | 'trace' | 'tools' | 'poll' | 'status' | 'compose';
  /** Numbers of runs; null: what the mode measures by default. */
  readonly runs: readonly number[] | null;
  readonly lines: readonly Line[];
  readonly reps: number;
  readonly servers: readonly ServerName[];
  readonly queue: 'postgres' | 'redis' | 'none';
  readonly nodeArguments: readonly string[];
  readonly workerEnv: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly writeDocs: boolean;
}

export const HELP = `npm run bench -- [flags]

  --runs 1k,10k,100k   runs of each measurement (default 1k,10k; --status and --compose: 100k)
  --engines a,b        which lines, in this order (default: all); ${LINES.map((line) => line.name).join(', ')}
  --reps 3             interleaved repetitions of each
  --server stock,tuned settings of PostgreSQL (default stock)
  --queue postgres     what carries the product's signals: postgres, redis, none
  --node-flags "…"     arguments for the Node processes that do the work
  --env A=1,B=2        environment of the product's workers
  --timeout 900        seconds after which a run counts as failed
  --write-docs         measure tools, poll, status and compose too, and write docs/BENCHMARKS.md from it all

  --trace              CPU of the server, statement by statement
  --tools              a call of a module tool, alone and in chunks
  --poll               1,000 provider batches that stay open: provider calls a minute
  --status             GET of a batch while it runs
  --compose            ready runs to one request body
`;

/** Reads the command line; throws an error that names the flag. */
export function readOptions(args: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      runs: { type: 'string' },
      engines: { type: 'string' },
      reps: { type: 'string', default: '3' },
      server: { type: 'string', default: 'stock' },
      queue: { type: 'string', default: 'postgres' },
      'node-flags': { type: 'string', default: '' },
      env: { type: 'string', default: '' },
      timeout: { type: 'string', default: '900' },
      'write-docs': { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
      tools: { type: 'boolean', default: false },
      poll: { type: 'boolean', default: false },
      status: { type: 'boolean', default: false },
      compose: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const modes = (['trace', 'tools', 'poll', 'status', 'compose'] as const).filter((mode) => values[mode]);
  if (modes.length > 1) throw new Error(`--${modes.join(' and --')}: one at a time.`);
  if (modes.length > 0 && values['write-docs'])
    throw new Error('--write-docs goes with the comparison, and measures the others too.');
  return {
    mode: modes[0] ?? 'compare',
    runs: values.runs === undefined ? null : listOf(values.runs).map((text) => countOf('--runs', text)),
    lines: linesOf(values.engines),
    reps: countOf('--reps', values.reps),
    servers: listOf(values.server).map(serverOf),
    queue: queueOf(values.queue),
    nodeArguments: values['node-flags'].split(' ').filter((flag) => flag !== ''),
    workerEnv: Object.fromEntries(
      listOf(values.env).map((pair) => {
        const at = pair.indexOf('=');
        if (at < 1) throw new Error(`--env: '${pair}' is no NAME=value.`);
        return [pair.slice(0, at), pair.slice(at + 1)];
      }),
    ),
    timeoutMs: countOf('--timeout', values.timeout) * 1000,
    writeDocs: values['write-docs'],
  };
}

function listOf(text: string): readonly string[] {
  return text.split(',').filter((part) => part !== '');
}

/** `2500`, `10k`, `1m`. */
function countOf(flag: string, text: string): number {
  const match = /^(\d+)([km]?)$/.exec(text);
  const count = Number(match?.[1]) * (match?.[2] === 'k' ? 1_000 : match?.[2] === 'm' ? 1_000_000 : 1);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new Error(`${flag}: '${text}' is no count such as 2500 or 10k.`);
  return count;
}

function linesOf(text: string | undefined): readonly Line[] {
  if (text === undefined) return LINES;
  return listOf(text).map((name) => {
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
