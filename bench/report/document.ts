/** docs/BENCHMARKS.md, from a run. */
import { ENGINES } from '../engines/engines.ts';
import { LINES, PEERS } from '../lines.ts';
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
  'The goals are those the engine was planned with, from its parts measured one by one; where none says otherwise they are those of 10,000 runs.',
  'What is missed has no single cause: [SCALING.md](SCALING.md), "Where it goes", takes a step apart. It writes seven rows or versions where',
  'the floor writes four, and does what the floor leaves out. The distances to the peers that work row by row follow from the same figure.',
  'Of two workers there are two goals. Where tools wait, the limit of one is how many calls its tool host has under way, 64 on two cores, which',
  'more threads (`TOOL_THREADS`) raise as a second worker does. Where tools answer at once it is the cores, which both workers share with PostgreSQL.',
];

const UNMEASURED = [
  "A model's time and a provider's hours: results are there at once, so what is measured is only what the engine adds.",
  'The network to PostgreSQL: it is on the same machine, over loopback. Engines that ask row by row would lose more by a real one.',
  'HTTP in front: runs are taken in through the store, as the API does it, without the request around it.',
  'Autovacuum over hours, a database larger than memory, replicas, and more than two cores.',
  'Faults: every answer comes, once, in order. What recovery costs is proven elsewhere, not timed here.',
  'Peers at their best. Each is used as its documentation shows; somebody who knows it well may do better.',
];

export function documentOf(documented: Documented): string {
  const { machine, lines, others, goals, notes, options, date, command } = documented;
  const sections: string[] = [
    '# Benchmarks',
    `What the engine costs, beside a hand-written floor and beside what one might use instead. Written by \`${command}\` on ${date}; every figure below is of that run.`,
    '## Reading it',
    [
      `- **The work**: runs of ${STEPS} steps, ${STEPS - 1} of them with a tool call. A result line has ${LINE_BYTES.toLocaleString('en-US')} bytes (${TEXT_CHARS} of text), a tool's result ${TOOL_RESULT_CHARS} characters. A finished run has ${MESSAGES_PER_RUN} messages, ${STEPS} steps and ${STEPS - 1} tool calls in the database; the rows of every engine are counted before its figures are.`,
      '- **A step** is one answer taken in, its tool call carried out, and the next request made. The figure that travels between machines is CPU a step, and of that the ratio: steps a second are those of one machine on one day.',
      "- **CPU** is that of the engine (its process, threads and children) and of the whole PostgreSQL, apart, from the kernel's books, taking the runs in included. The provider answers from prepared lines; its work is left out.",
      `- Every engine runs in a process of its own on a fresh database after a checkpoint, in turns, ${options.reps} times; figures are medians. \`fsync\` is on everywhere. "foreign" is the number of cores that were busy with something else.`,
      `- The product's waits are cut short, since the provider answers at once: its runs gather for ${SHORT_WAITS.GATHER_WINDOW_MS} ms and the provider is asked every ${SHORT_WAITS.POLL_INTERVAL_MS} ms. It does so by default every 2 s and every minute.`,
      '- **floor** does nothing but the durable writes, a thousand results a statement. **floor-full** adds what cannot be left out: request bodies from the history, tools in threads, answers durable before their tools run. It is what the product is measured against.',
    ].join('\n'),
    '## Machine',
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB; a synced 8 KB write takes ${machine.fsync_us} us. Node ${machine.node}, PostgreSQL ${machine.postgres}, commit ${machine.commit}. Signals over ${options.queue}${options.nodeArguments.length === 0 ? '' : `; Node flags ${options.nodeArguments.join(' ')}`}.`,
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
        const peer = PEERS.includes(line.name) || line.name.startsWith('floor');
        return `- **${line.name}**: ${line.about}.${peer ? ` Leaves out: ${leaves_out}.` : ''}`;
      })
      .join('\n'),
  );
  if (notes.length > 0) sections.push(notes.map((note) => `- ${note}`).join('\n'));
  sections.push(
    '## What it does not measure',
    UNMEASURED.map((item) => `- ${item}`).join('\n'),
    '## Other measurements',
    [
      'Of the same run; each alone by `npm run bench -- --tools`, `--poll`, `--status`, `--compose`. What each statement costs the server',
      'is shown by `--trace`. Uploads and downloads have their place beside these in `bench/scenarios/`.',
    ].join('\n'),
    ...others.flatMap(({ title, table, notes: own }) => [
      `### ${title}`,
      toMarkdown(table),
      ...(own.length === 0 ? [] : [own.join(' ')]),
    ]),
  );
  return `${sections.join('\n\n')}\n`;
}
