// Removes the safety code piece by piece, and expects the simulation to notice each time: `npm run sabotage`.
// With `-- --only fence`: the mutants whose name contains "fence".

import { openProofDatabase } from '../proof/database.ts';
import { MUTANTS } from '../proof/mutants.ts';
import { runMutant } from '../proof/sabotage.ts';
import { startProofServer } from '../proof/server.ts';
import { readCommandLine } from './command-line.ts';

const { flags, refuse } = readCommandLine({
  name: 'sabotage',
  what: 'Removes the safety code piece by piece; a check must notice each time.',
  takes: 'minutes',
  flags: { only: { value: 'text', default: '', what: 'run the mutants whose name contains the text' } },
});
const chosen = MUTANTS.filter((mutant) => mutant.name.includes(flags.only));
if (chosen.length === 0)
  refuse(
    `No mutant has '${flags.only}' in its name. There are: ${MUTANTS.map(({ name }) => name).join(', ')}.`,
  );
const server = await startProofServer();
try {
  const database = await openProofDatabase(server.url);
  let missed = 0;
  console.log(`${'mutant'.padEnd(36)}${'caught by'.padEnd(24)}seeds`);
  for (const mutant of chosen) {
    const { caughtBy, seeds, fault } = await runMutant(database, mutant);
    if (fault !== null) missed += 1;
    console.log(
      `${mutant.name.padEnd(36)}${(caughtBy ?? 'NONE').padEnd(24)}${seeds}${fault === null ? '' : `  ${fault}`}`,
    );
  }
  await database.close();
  console.log(`${chosen.length - missed} of ${chosen.length} mutants were caught.`);
  process.exitCode = missed === 0 ? 0 : 1;
} finally {
  await server.stop();
}
