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
  'The goals were set for the engine; with each stands the size at which it is judged.',
  'What is missed has no single cause: [SCALING.md](SCALING.md), "Where it goes", takes a step apart. It writes seven rows or versions where',
  'the floor writes four, and does what the floor leaves out. The distances to the peers that work row by row follow from the same figure.',
  'Two workers are judged at the largest size that was measured with one and with two; the limit is told from the processes that kept the',
  'cores busy.',
];

const UNMEASURED = [
  "A model's time and a provider's hours: results are there at once, so what is measured is only what the engine adds.",
  'The network to PostgreSQL: it is on the same machine, over loopback. Engines that ask row by row would lose more by a real one.',
  'HTTP in front: runs are taken in through the store, as the API does it, without the request around it. Uploads and downloads are not measured either.',
  'Audits of the books, which read everything that is kept: none falls into what is measured of the steps. What one takes is a figure of its own, **audit us/step kept**, where the tables have it; what it comes to by the night is in [SCALING.md](SCALING.md).',
  'Autovacuum over hours, a database larger than memory, replicas, and more than two cores.',
  'Faults: every answer comes, once, in order. What recovery costs is proven elsewhere, not timed here.',
  'Peers at their best. Each is used as its documentation shows; an expert may get more out of it.',
];

export function documentOf(documented: Documented): string {
  const { machine, lines, others, goals, notes, options, date, command } = documented;
  const sections: string[] = [
    '# Benchmarks',
    `The engine's cost, beside a hand-written floor and beside peers. Written by \`${command}\` on ${date}; every figure below is of that run.`,
    '## Reading it',
    [
      `- **The work**: runs of ${STEPS} steps, ${STEPS - 1} of them with a tool call. A result line has ${LINE_BYTES.toLocaleString('en-US')} bytes (${TEXT_CHARS} of text), a tool's result ${TOOL_RESULT_CHARS} characters. A finished run has ${STEPS} steps and ${MESSAGES_PER_RUN} messages in the database, in the product ${STEPS - 1} tool calls as well. What an engine has stored is counted before its figures are.`,
      '- **A step** is one answer taken in, its tool call carried out, and the next request made. The figure that travels between machines is CPU a step, and of that the ratio: steps a second are those of one machine on one day.',
      "- **CPU** is that of the engine (its process, threads and children), of the whole PostgreSQL and of Redis, apart, from the kernel's books; min..max is of their sum. CPU and WAL include that the runs are taken in, **steps/s** do not: their clock starts when the work does. The provider answers from prepared lines; its work is left out.",
      '- **stmts/step** and **tx/step** are what the engine sends; of the product what its workers send, without the one transaction in which the runs are taken in. **disk** is by how much the database has grown from before the runs were taken in to their end, indexes included and nothing vacuumed by hand.',
      "- **audit us/step kept** is PostgreSQL's CPU for one audit of the books, divided by the steps that lie in the database: made once, when the work is done and the workers have ended. It is in no other figure, and empty for engines that have none.",
      "- **RSS MB** is the most memory that one process of the engine held; **KB/run** is what all of its processes have grown by, each from idle to its peak, divided by the runs. Of the product these are the workers and their tool hosts. **loop** is how long the event loop of the engine's main thread was held up, and **foreign** how many cores were busy with something else.",
      `- Every engine runs in a process of its own on a fresh database after a checkpoint, in turns, ${repetitions(options.reps)}. \`fsync\` is on everywhere.`,
      `- The product's waits are cut short, since the provider answers at once: its runs gather for ${SHORT_WAITS.GATHER_WINDOW_MS} ms and the provider is asked every ${SHORT_WAITS.POLL_INTERVAL_MS} ms. It does so by default every 2 s and every minute.`,
      '- **floor-full** does the durable writes, a thousand results a statement, and the work that cannot be left out: request bodies from the history, tools in threads, answers durable before their tools run. The product is measured against it.',
    ].join('\n'),
    '## Machine',
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB; a synced 8 KB write takes ${machine.fsync_us} us. Node ${machine.node}, PostgreSQL ${machine.postgres}, commit ${machine.commit}. Signals over ${options.queue}. The product's workers run with \`${WORKER_NODE_ARGUMENTS.join(' ')}\`, as \`npm start\` starts them, all other engines with Node's defaults.`,
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
      'Of the same run; each alone by `npm run bench -- --tools`, `--status`, `--compose`. `--trace` shows the cost of each statement,',
      '`--against <git ref>` measures this tree and an older one in turns.',
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
