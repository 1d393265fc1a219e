/** docs/BENCHMARKS.md, from a run. */
import { WORKER_NODE_ARGUMENTS } from '../../scripts/stack/settings.ts';
import { ENGINES } from '../engines/engines.ts';
import { LINES } from '../lines.ts';
import type { Machine } from '../measure/machine.ts';
import type { Options } from '../options.ts';
import {
  LINE_BYTES,
  MESSAGES_PER_RUN,
  SHORT_WAITS,
  STEPS,
  TEXT_CHARS,
  TOOL_RESULT_CHARS,
} from '../workload.ts';
import { goalTable, tableOf, type Goal } from './comparison.ts';
import type { ScenarioResult } from '../scenarios/bench.ts';
import type { LineFigures } from './summary.ts';
import { toMarkdown } from './table.ts';

export interface Documented {
  readonly machine: Machine;
  readonly lines: readonly LineFigures[];
  /** The scenarios beside the comparison. */
  readonly others: readonly ScenarioResult[];
  readonly goals: readonly Goal[];
  readonly notes: readonly string[];
  readonly options: Options;
  readonly date: string;
  readonly command: string;
}

const ABOUT_GOALS = [
  'Each goal names the size at which it is judged. The missed goals have no single cause: [SCALING.md](SCALING.md#where-it-goes) takes a step apart.',
  'A step writes seven rows or versions where the floor writes four, and does the work that the floor leaves out. Two workers are judged at the',
  'largest size that was measured with one and with two; the limit is read from the processes that kept the cores busy.',
];

const UNMEASURED = [
  "The model's time and the provider's hours: results are there at once.",
  'The network to PostgreSQL: it is on the same machine. A real network would cost the engines that work row by row more.',
  'HTTP: runs are accepted through the store, as the API does it, without the request. Uploads and downloads are not measured either.',
  'Audits of the books, which read all rows: no audit runs during the measured steps. **audit us/step kept** is its cost, and [SCALING.md](SCALING.md#the-audit-by-size) its cost by the night.',
  'Autovacuum over hours, a database larger than memory, replicas, and more than two cores.',
  'Faults: every answer comes, once, in order. The [proofs](../proof/README.md) show recovery.',
  'Peers at their best. Each is used as its documentation shows; an expert may get more out of it.',
];

export function documentOf(documented: Documented): string {
  const { machine, lines, others, goals, notes, options, date, command } = documented;
  const sections: string[] = [
    '# Benchmarks',
    `The cost of the engine, beside a hand-written floor and peers. Written by \`${command}\` on ${date}; all figures are from that run.`,
    '## Reading it',
    [
      `- **The work**: runs of ${STEPS} steps, ${STEPS - 1} with a tool call. A result line has ${LINE_BYTES.toLocaleString('en-US')} bytes (${TEXT_CHARS} of text), a tool's result ${TOOL_RESULT_CHARS} characters. A finished run has ${STEPS} steps and ${MESSAGES_PER_RUN} messages in the database, and in the product ${STEPS - 1} tool calls. The stored rows are counted first.`,
      '- **A step** is one answer read, its tool call carried out, and the next request made. Compare the ratios of CPU a step: steps a second belong to one machine on one day.',
      '- **CPU** comes from the kernel, apart for the engine (its process, threads and children), PostgreSQL and Redis; min..max is of their sum. CPU and WAL include accepting the runs; **steps/s** starts after it. The provider answers from prepared lines; its work is left out.',
      "- **stmts/step** and **tx/step** count the engine's statements and transactions; for the product those of its workers, without the transaction that accepts the runs. **disk** is the growth of the database from start to end, indexes included, without a manual vacuum.",
      "- **audit us/step kept** is PostgreSQL's CPU for one audit after the work, divided by the steps in the database. No other figure includes it.",
      "- **RSS MB** is the peak memory of the engine's largest process. **KB/run** is the growth of all its processes from idle to peak, divided by the runs; the product's processes are workers and tool hosts. **loop** is the delay of the main thread's event loop. **foreign** is the number of cores that other programs kept busy.",
      `- Every engine runs in its own process, on a fresh database after a checkpoint, in turns, ${repetitions(options.reps)}. \`fsync\` is on everywhere.`,
      `- The product's waits are shortened, because the provider answers at once: runs gather for ${SHORT_WAITS.GATHER_WINDOW_MS} ms, and the provider is polled every ${SHORT_WAITS.POLL_INTERVAL_MS} ms. The defaults are 2 s and a minute.`,
      '- **floor-full** is the yardstick. It does the durable writes, a thousand results a statement, and the work that is always needed: request bodies from the history, tools in threads, answers durable before their tools run.',
    ].join('\n'),
    '## Machine',
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB; a synced 8 KB write takes ${machine.fsync_us} us. Node ${machine.node}, PostgreSQL ${machine.postgres}, commit ${machine.commit}. Signals over ${options.queue}. The product's workers run with \`${WORKER_NODE_ARGUMENTS.join(' ')}\`, as \`npm start\` starts them; all other engines use Node's defaults.`,
  ];
  for (const server of options.servers) {
    for (const runs of new Set(lines.map((line) => line.runs))) {
      const own = lines.filter((line) => line.server === server && line.runs === runs);
      if (own.length === 0) continue;
      sections.push(`## ${runs.toLocaleString('en-US')} runs, ${server} settings`, toMarkdown(tableOf(own)));
    }
  }
  sections.push('## Goals', toMarkdown(goalTable(goals)), ABOUT_GOALS.join('\n'));
  const shown = LINES.filter((line) => lines.some((own) => own.line === line.name));
  sections.push(
    '## The lines',
    shown
      .map((line) => {
        const { leaves_out } = ENGINES[line.engine];
        return `- **${line.name}**: ${line.about}.${leaves_out === '' ? '' : ` Leaves out: ${leaves_out}.`}`;
      })
      .join('\n'),
  );
  if (notes.length > 0) sections.push(notes.map((note) => `- ${note}`).join('\n'));
  sections.push(
    '## What it does not measure',
    UNMEASURED.map((item) => `- ${item}`).join('\n'),
    '## Other measurements',
    [
      'From the same run. `npm run bench -- --tools`, `--status` and `--compose` run each alone. `--trace` shows the cost of each statement,',
      '`--against <git ref>` measures this tree and an older tree in turns.',
    ].join('\n'),
    ...others.flatMap(({ title, table, notes: own }) => [
      `### ${title}`,
      toMarkdown(table),
      ...(own.length === 0 ? [] : [own.join(' ')]),
    ]),
  );
  return `${sections.join('\n\n')}\n`;
}

function repetitions(reps: number): string {
  if (reps === 1) return 'once';
  return reps === 2 ? 'twice; figures are means of the two' : `${reps} times; figures are medians`;
}
