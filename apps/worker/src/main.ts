import { isError, NightshiftError } from '@nightshift/agent-core';
import {
  AUDIT_STATEMENT_MS,
  createPool,
  createWishToEnd,
  openProcessLog,
  startFailure,
} from '@nightshift/services';
import { startToolHost } from '@nightshift/tool-host';
import { assertUsable, connect, explained } from '@nightshift/db';
import { pino } from 'pino';
import { readConfig, type WorkerConfig } from './config.ts';
import { answerLivez } from './livez.ts';
import { anthropicProvider } from './provider/anthropic.ts';
import { removeStaleBodyFiles } from './provider/body-file.ts';
import { startWorker } from './worker.ts';

/** Milliseconds that a stop may take before leases are left to run out. */
const STOP_DEADLINE_MS = 20_000;
/** Milliseconds for what no longer matters once the leases are back: tool threads, connections. */
const TIDY_MS = 3_000;

const config = configOrExit();
const logStream = openProcessLog();
const log = pino(
  {
    level: config.log_level,
    base: { app: 'worker', worker: config.name },
    // The database's `detail` quotes rows: users' texts have no place in a log.
    serializers: {
      err: ({ name, message, stack, code }: Error & { code?: unknown }) => ({ name, message, stack, code }),
    },
  },
  logStream,
);

/** For lines that whoever started the worker waits for, whatever LOG_LEVEL leaves out. */
const always = log.child({}, { level: 'info' });

const livezUrl = await answerLivez(config.health_host, config.health_port, logStream).catch(endWith);

const pool = createPool({
  url: config.database_url,
  max: config.database_pool_max,
  applicationName: `nightshift-worker ${config.name}`,
});
// An audit reads every table: on a large database its statements take longer than any of a flow may.
const auditPool = createPool({
  url: config.database_url,
  max: 1,
  applicationName: `nightshift-audit ${config.name}`,
  statementTimeoutMs: AUDIT_STATEMENT_MS,
});
await assertUsable(connect(pool), config.database_url).catch(endWith);
await removeStaleBodyFiles(config.settings.body_dir).catch(endWith);

const tools = await startToolHost({
  toolsDirs: [...config.tools_dirs],
  ...(config.tool_threads > 0 ? { threads: config.tool_threads } : {}),
  threadMemoryMb: config.tool_thread_memory_mb,
  // What a tool prints may be anybody's data: only who asks for it gets it.
  onLog: (line, source) => log[source === 'host' ? 'warn' : 'debug'](line),
}).catch(endWith);
for (const problem of tools.listProblems()) always.warn({ ...problem }, 'tool module left out');

// Work may begin before all of it has started: from here on a signal finds leases to give back.
const starting = startWorker(config, {
  pool,
  auditPool,
  provider: anthropicProvider(config.provider),
  tools,
  log: {
    report: (report) => {
      // Of a tool that is left out or missing whoever starts the worker hears as of a module that is.
      const teller = report.flow === 'register-tools' ? always : log;
      if (report['alarm'] === true) teller.error(report, report.flow);
      else if (report['warning'] === true) teller.warn(report, report.flow);
      else log.info(report, report.flow);
    },
    failure: (flow, error) => {
      log.error({ flow, err: error }, 'flow failed; it is tried again');
    },
    queueError: (error) => {
      log.warn({ err: error }, 'queue trouble; the sweep goes on');
    },
  },
});

const wish = createWishToEnd();
async function stop(signal: string): Promise<void> {
  const told = wish.tell();
  if (told === 'at once') process.exit(1);
  if (told === 'again') return;
  log.info({ signal }, 'worker stops');
  setTimeout(() => {
    log.error('the stop took too long; leases run out by themselves');
    process.exit(1);
  }, STOP_DEADLINE_MS).unref();
  const worker = await starting;
  await worker.stop().catch((error: unknown) => {
    log.error({ err: error }, 'the stop failed; leases run out by themselves');
    process.exitCode = 1;
  });
  const tidied = Promise.allSettled([tools.close(), pool.end(), auditPool.end()]);
  await Promise.race([tidied, new Promise((resolve) => setTimeout(resolve, TIDY_MS))]);
  log.info('worker has stopped');
  process.exit();
}
process.on('SIGTERM', (signal) => void stop(signal));
process.on('SIGINT', (signal) => void stop(signal));
if (config.exit_with_parent) {
  // A parent that goes while this stops is no second wish to hurry.
  process.stdin
    .on('end', () => {
      if (!wish.isTold()) void stop('end of standard input');
    })
    .resume();
}
await starting.catch((error: unknown) => endWith(explained(error, config.database_url)));
always.info({ tools: tools.listTools().map((tool) => tool.name), livez: livezUrl }, 'worker is at work');

/** Ends a worker that cannot start: in a sentence where there is one, else with the stack in one line. */
function endWith(error: unknown): never {
  console.error(error instanceof NightshiftError ? error.message : startFailure(error));
  process.exit(1);
}

function configOrExit(): WorkerConfig {
  try {
    return readConfig(process.env);
  } catch (error) {
    if (!isError(error, 'bad_configuration')) throw error;
    console.error(error.message);
    process.exit(1);
  }
}
