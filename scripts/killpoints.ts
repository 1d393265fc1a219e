// Kills, fails and pauses a worker at every named point of the flows, at its first, second and last hit: `npm
// run killpoints`.
// With `--every-effect`: at every statement, commit and call instead, in half an hour.

import { HOOK_POINTS } from '../apps/worker/src/flow-parts/deps.ts';
import { openProofDatabase } from '../proof/database.ts';
import { STRUCK_ELSEWHERE, sweepPoints } from '../proof/killpoints.ts';
import { startProofServer } from '../proof/server.ts';
import type { EffectKind } from '../proof/world.ts';
import { readCommandLine } from './command-line.ts';

const EVERY_EFFECT: readonly EffectKind[] = ['sql', 'begin', 'statement', 'commit', 'call'];

const { flags } = readCommandLine({
  name: 'killpoints',
  what: 'Kills, fails and pauses a worker at every named point of the flows; all work must end each time.',
  takes: 'minutes; half an hour with --every-effect',
  flags: { 'every-effect': { what: 'strike at every statement, commit and call instead' } },
});

const server = await startProofServer();
try {
  const database = await openProofDatabase(server.url);
  let points = 0;
  let runs = 0;
  let failed = 0;
  console.log(
    `${'point'.padEnd(72)}${'scenario'.padEnd(22)}${'hits'.padStart(5)}${'runs'.padStart(6)}${'failed'.padStart(8)}`,
  );
  const swept = await sweepPoints(database, flags['every-effect'] ? EVERY_EFFECT : ['hook'], (report) => {
    points += 1;
    runs += report.runs;
    failed += report.failures.length;
    console.log(
      `${report.point.padEnd(72)}${report.scenario.padEnd(22)}${String(report.hits).padStart(5)}` +
        `${String(report.runs).padStart(6)}${String(report.failures.length).padStart(8)}`,
    );
    for (const failure of report.failures) console.log(`    ${failure}`);
  });
  await database.close();
  const passedBy = flags['every-effect']
    ? []
    : HOOK_POINTS.filter((point) => !swept.has(point) && !STRUCK_ELSEWHERE.has(point));
  for (const point of passedBy) console.log(`${point}: no scenario passes it`);
  failed += passedBy.length;
  console.log(`${runs} struck runs at ${points} points, ${failed} failed.`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  await server.stop();
}
