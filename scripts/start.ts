import { join } from 'node:path';
import { workerSettings } from './stack/settings.ts';
import { startStack } from './stack/stack.ts';

// Everything in one command: embedded Postgres unless DATABASE_URL names another, the simulator unless
// ANTHROPIC_API_KEY is set, the API and one worker (WORKERS for more). Stays up until Ctrl-C.
const key = process.env.ANTHROPIC_API_KEY ?? '';
const isSimulated = key === '';
const dataDir = process.env.DATA_DIR ?? '.data';
console.error('Starting the database, the API and a worker …');
const stack = await startStack({
  dataDir,
  workers: Number(process.env.WORKERS ?? 1),
  port: Number(process.env.PORT ?? 8283),
  toolsDir: process.env.TOOLS_DIR ?? join(import.meta.dirname, '../samples/tools'),
  workerEnv: {
    ...(isSimulated ? { POLL_INTERVAL_MS: '500', GATHER_WINDOW_MS: '250' } : {}),
    ...workerSettings(process.env),
  },
  ...(isSimulated ? {} : { anthropicApiKey: key }),
  ...(process.env.DATABASE_URL === undefined ? {} : { databaseUrl: process.env.DATABASE_URL }),
  ...(process.env.QUEUE_URL === undefined ? {} : { queueUrl: process.env.QUEUE_URL }),
});
console.log(
  [
    '',
    `  API       ${stack.apiUrl}`,
    `  API key   ${stack.apiKey}`,
    `  model     ${stack.simulatorControlUrl === null ? 'the real Anthropic API' : 'simulated (set ANTHROPIC_API_KEY for the real one)'}`,
    `  logs      ${join(dataDir, 'logs')}`,
    '',
    '  Ctrl-C stops everything; what was accepted goes on at the next start.',
    '',
  ].join('\n'),
);

let stopping = false;
const stop = async (): Promise<void> => {
  if (stopping) process.exit(1);
  stopping = true;
  console.error('Stopping …');
  await stack.stop();
  process.exit(0);
};
process.on('SIGINT', () => void stop());
process.on('SIGTERM', () => void stop());
