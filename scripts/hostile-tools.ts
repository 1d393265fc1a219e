// Runs the corpora of hostile tools, of JavaScript in the sandbox and of Python in its jail: `npm run hostile-tools`.
// With `-- --only memory`: the programs whose name contains "memory". With `-- --language python`: that corpus alone.

import { PROGRAMS, type HostileProgram } from '../proof/hostile-tools/programs.ts';
import { openHostilePython } from '../proof/hostile-tools/python-host.ts';
import { PYTHON_PROGRAMS } from '../proof/hostile-tools/python-programs.ts';
import {
  runHostile,
  startHostileHost,
  warmUp,
  type HostileBounds,
  type HostileHost,
} from '../proof/hostile-tools/run.ts';
import { readCommandLine } from './command-line.ts';

const BOUNDS = { timeout_ms: 500, overtime_ms: 250 };
/** Calls after which the garbage of the host's threads has its usual size. */
const WARM_UP_ROUNDS = 60;

/** A program that does harm does it each time; a busy machine is late now and then. */
const ATTEMPTS_MAX = 3;

interface Corpus {
  readonly language: string;
  readonly programs: readonly HostileProgram[];
  readonly bounds: HostileBounds;
  readonly open: () => Promise<HostileHost>;
}

const CORPORA: readonly Corpus[] = [
  {
    language: 'javascript',
    programs: PROGRAMS,
    bounds: { ...BOUNDS, growth_mb: 96 },
    open: startHostileHost,
  },
  {
    language: 'python',
    programs: PYTHON_PROGRAMS,
    bounds: { ...BOUNDS, growth_mb: 256 },
    open: openHostilePython,
  },
];

const { flags, refuse } = readCommandLine({
  name: 'hostile-tools',
  what: 'Runs hostile programs as uploaded tools; each must end in time and harm no other call.',
  takes: 'four minutes',
  flags: {
    only: { value: 'text', default: '', what: 'run the programs whose name contains the text' },
    language: { value: 'name', default: '', what: 'javascript or python; default: both' },
  },
});
const chosen = CORPORA.filter(({ language }) => flags.language === '' || flags.language === language)
  .map((corpus) => ({ ...corpus, programs: corpus.programs.filter(({ name }) => name.includes(flags.only)) }))
  .filter(({ programs }) => programs.length > 0);
if (chosen.length === 0) refuse(`No program has '${flags.only}' in its name.`);

let failed = 0;
for (const corpus of chosen) {
  const host = await corpus.open().catch((error: unknown) => String(error));
  if (typeof host === 'string') {
    console.log(`off ${corpus.language}: ${host}`);
    continue;
  }
  failed += await runCorpus(corpus, host);
  await host.close();
}
process.exitCode = failed === 0 ? 0 : 1;

/** Prints the result of each program. Returns the number of those that did harm. */
async function runCorpus({ language, programs, ...corpus }: Corpus, host: HostileHost): Promise<number> {
  for (const layer of host.layers) console.log(layer);
  const callMs = await warmUp(host, WARM_UP_ROUNDS);
  console.log(`a harmless call takes ${callMs.toFixed(0)} ms`);
  const overtime_ms = corpus.bounds.overtime_ms + (host.startsProcesses ? callMs : 0);
  const bounds = { ...corpus.bounds, overtime_ms };
  let harmful = 0;
  console.log(`${language.padEnd(48)}${'end'.padEnd(12)}${'ms'.padStart(6)}${'MB'.padStart(6)}  neighbours`);
  for (const program of programs) {
    let result = await runHostile(host, program, bounds);
    for (let at = 1; at < ATTEMPTS_MAX && result.problems.length > 0; at += 1)
      result = await runHostile(host, program, bounds);
    const { name, status, elapsed_ms, growth_mb, neighbours, problems } = result;
    if (problems.length > 0) harmful += 1;
    console.log(
      name.padEnd(48) +
        status.padEnd(12) +
        elapsed_ms.toFixed(0).padStart(6) +
        growth_mb.toFixed(0).padStart(6) +
        String(neighbours).padStart(5) +
        problems.map((problem) => `\n    ${problem}`).join(''),
    );
  }
  console.log(
    `${programs.length - harmful} of ${programs.length} hostile programs in ${language} did no harm.`,
  );
  return harmful;
}
