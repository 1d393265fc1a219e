/** Runs the seeds that its parent sends, one at a time, over its own database. */
import type { SeedReport } from './campaign.ts';
import { openProofDatabase } from './database.ts';
import { simulate } from './simulation.ts';

const [serverUrl] = process.argv.slice(2);
if (serverUrl === undefined || process.send === undefined)
  throw new Error('This program is started by the campaign; run `npm run simulate` instead.');
const send = process.send.bind(process);
const database = await openProofDatabase(serverUrl);

process.on(
  'message',
  (message: { readonly kind: 'end' } | { readonly kind: 'seed'; readonly seed: number }) => {
    const work = message.kind === 'end' ? end() : runSeed(message.seed);
    work.catch((error: unknown) => {
      process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
      process.exit(1);
    });
  },
);
send({ kind: 'ready' });

async function runSeed(seed: number): Promise<void> {
  const { trace, ...result } = await simulate(database, { seed });
  let report: SeedReport = { ...result, trace: [], isRepeatable: null };
  if (result.violations.length > 0) {
    const second = await simulate(database, { seed, exactly: true });
    const third = await simulate(database, { seed, exactly: true });
    const shown = second.violations.length > 0 ? second : { ...result, trace };
    report = { ...shown, isRepeatable: second.traceHash === third.traceHash && second.violations.length > 0 };
  }
  send({ kind: 'report', report });
}

async function end(): Promise<void> {
  await database.close();
  process.disconnect();
}
