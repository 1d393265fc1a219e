// Runs the corpus of hostile tools in the sandbox: `npm run hostile-tools`.
// With `-- --only memory`: the programs whose name contains "memory".

import { PROGRAMS } from '../proof/hostile-tools/programs.ts';
import { runHostile, startHostileHost, warmUp, type HostileBounds } from '../proof/hostile-tools/run.ts';
import { readCommandLine } from './command-line.ts';

const BOUNDS: HostileBounds = { timeout_ms: 500, overtime_ms: 250, growth_mb: 96 };
/** Calls after which the garbage of the host's threads has its usual size. */
const WARM_UP_ROUNDS = 60;

/** A program that does harm does it each time; a busy machine is late now and then. */
const ATTEMPTS_MAX = 3;

const { flags, refuse } = readCommandLine({
  name: 'hostile-tools',
  what: 'Runs hostile programs in the sandbox; each must end in time and harm no other call.',
  takes: 'two minutes',
  flags: { only: { value: 'text', default: '', what: 'run the programs whose name contains the text' } },
});
const chosen = PROGRAMS.filter(({ name }) => name.includes(flags.only));
if (chosen.length === 0) refuse(`No program has '${flags.only}' in its name.`);

const host = await startHostileHost();
for (const { name, holds, reason } of host.layers)
  console.log(`${holds ? 'on ' : 'off'} ${name} ${reason ?? ''}`);
await warmUp(host, WARM_UP_ROUNDS);
let failed = 0;
console.log(`${'program'.padEnd(48)}${'end'.padEnd(12)}${'ms'.padStart(6)}${'MB'.padStart(6)}  neighbours`);
for (const program of chosen) {
  let result = await runHostile(host, program, BOUNDS);
  for (let at = 1; at < ATTEMPTS_MAX && result.problems.length > 0; at += 1)
    result = await runHostile(host, program, BOUNDS);
  const { name, status, elapsed_ms, growth_mb, neighbours, problems } = result;
  if (problems.length > 0) failed += 1;
  console.log(
    name.padEnd(48) +
      status.padEnd(12) +
      elapsed_ms.toFixed(0).padStart(6) +
      growth_mb.toFixed(0).padStart(6) +
      String(neighbours).padStart(5) +
      problems.map((problem) => `\n    ${problem}`).join(''),
  );
}
await host.close();
console.log(`${chosen.length - failed} of ${chosen.length} hostile programs did no harm.`);
process.exitCode = failed === 0 ? 0 : 1;
