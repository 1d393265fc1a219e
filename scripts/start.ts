import { join } from 'node:path';
import { parseQueueUrl } from '../libs/queue/src/index.ts';
import { createShutdown } from '../libs/services/src/index.ts';
import { buildDashboard } from './dashboard/build-dashboard.ts';
import { endWith, given, readCommandLine, wholeNumber } from './command-line.ts';
import {
  dataDirectory,
  emptyDataDirectory,
  forgetApiUrl,
  keepApiUrl,
  makeInDataDirectory,
  refuseOthersDirectory,
} from './stack/data-directory.ts';
import { keepRunning } from './stack/keep-running.ts';
import { PORT_DEFAULT, wantedPort } from './stack/port.ts';
import { absolutePaths, apiSettings, checkKeys, providerWithKey, workerSettings } from './stack/settings.ts';
import { createSignInLink } from './stack/sign-in-link.ts';
import { heedSignals } from './stack/signals.ts';
import { startStack, type Stack } from './stack/stack.ts';

// Starts everything in one command: embedded Postgres without DATABASE_URL, the simulator without
// ANTHROPIC_API_KEY, the API and one worker (WORKERS for more). Runs until Ctrl-C.
const WORKERS_MAX = 64;

const { flags, refuse } = readCommandLine({
  name: 'start',
  what: 'The service: database, API and workers, until Ctrl-C. docs/OPERATING.md lists its environment variables.',
  takes: 'a few seconds until it is up',
  flags: { fresh: { what: 'remove the data of earlier starts first, the embedded database included' } },
});
if (flags.fresh && given('DATABASE_URL') !== undefined)
  refuse('--fresh removes the embedded database, but DATABASE_URL names another.');
const key = given('ANTHROPIC_API_KEY');
const isSimulated = key === undefined;
const dataDir = dataDirectory();

// Before anything is started: from then on there is something to stop.
const shutdown = createShutdown();
let leaveAlone = (): void => undefined;
heedSignals(shutdown, () => void stop(0));
const starting = start();
const stack = await starting.catch((error: unknown) => (shutdown.isRequested() ? undefined : endWith(error)));
if (stack !== undefined && !shutdown.isRequested()) {
  leaveAlone = keepRunning(stack, {
    say: (line) => {
      console.error(line);
    },
    giveUp: ({ message }) => {
      console.error(message);
      if (shutdown.request() === 'first') void stop(1);
    },
  });
  keepApiUrl(dataDir, stack.apiUrl);
  announce(stack, await createSignInLink(stack));
}

async function stop(exitCode: number): Promise<void> {
  leaveAlone();
  console.error('Stopping …');
  // A failing start stops its own parts.
  const started = await starting.catch(() => undefined);
  if (started !== undefined) forgetApiUrl(dataDir, started.apiUrl);
  await started?.stop();
  process.exit(exitCode);
}

function announce(
  { apiUrl, apiKey, workers: { length: workers }, simulatorControlUrl }: Stack,
  link: string,
): void {
  const { port } = new URL(apiUrl);
  const isAnother = given('PORT') === undefined && port !== String(PORT_DEFAULT);
  console.log(
    [
      '',
      `  API       ${apiUrl}`,
      `  API key   ${apiKey}`,
      `  dashboard ${link}`,
      '            (signs in once, within ten minutes)',
      `  model     ${simulatorControlUrl === null ? `real: ${providerWithKey(process.env)}` : 'simulated (set ANTHROPIC_API_KEY for the real one)'}`,
      `  workers   ${workers}${workers === 1 ? ' (WORKERS for more)' : ''}`,
      `  logs      ${join(dataDir, 'logs')}`,
      '',
      ...(isAnother
        ? [`  Port ${PORT_DEFAULT} is in use by another program; this start uses ${port}.`, '']
        : []),
      '  npx nightshift ls    lists batches; --help shows what else it can.',
      '  Ctrl-C stops everything; accepted work goes on at the next start.',
      '',
    ].join('\n'),
  );
}

async function start(): Promise<Stack> {
  const count = wholeNumber('WORKERS', given('WORKERS') ?? '1', 1, WORKERS_MAX);
  const queueUrl = given('QUEUE_URL');
  if (queueUrl !== undefined) parseQueueUrl(queueUrl);
  const wanted = wantedPort();
  checkKeys(process.env);
  makeInDataDirectory(dataDir);
  if (flags.fresh) {
    refuseOthersDirectory(dataDir);
    emptyDataDirectory(dataDir);
  }
  await buildDashboard().catch((error: unknown) => {
    console.error(
      `The dashboard is not built anew, and the API works without it: ${(error as Error).message}`,
    );
  });
  console.error(`Starting the database, the API and ${count === 1 ? 'a worker' : `${count} workers`} …`);
  return startStack({
    dataDir,
    workers: count,
    ...wanted,
    toolsDir: absolutePaths(given('TOOLS_DIR')) ?? join(import.meta.dirname, '../samples/tools'),
    onToolLeftOut: (line) => {
      console.error(line);
    },
    apiEnv: apiSettings(process.env),
    workerEnv: {
      // A restarted simulator has lost its batches and says so at once.
      ...(isSimulated ? { POLL_INTERVAL_MS: '500', GATHER_WINDOW_MS: '250', MISSING_GRACE_MS: '5000' } : {}),
      ...workerSettings(process.env),
    },
    anthropicApiKey: key,
    databaseUrl: given('DATABASE_URL'),
    queueUrl,
  });
}
