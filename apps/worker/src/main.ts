import { isError, NightshiftError } from '@nightshift/agent-core';
import {
  AUDIT_STATEMENT_MS,
  createPool,
  createShutdown,
  openProcessLog,
  startFailure,
} from '@nightshift/services';
import { openPythonJail } from '@nightshift/python-jail';
import { startNetHost } from '@nightshift/net-host';
import { startSandboxHost } from '@nightshift/sandbox-host';
import { startToolHost } from '@nightshift/tool-host';
import { assertUsable, connect, DEFAULT_PROJECT_ID, explained, readToolCode } from '@nightshift/db';
import { pino } from 'pino';
import { readConfig, type WorkerConfig } from './config.ts';
import { answerLivez } from './livez.ts';
import { anthropicProvider } from './provider/anthropic.ts';
import { removeStaleBodyFiles } from './provider/body-file.ts';
import { createOfferRecorder, registerMcpPrograms, type McpOfferParts } from './register-mcp.ts';
import { createHttpRunner } from './tools/http/http-runner.ts';
import { createLazyHost } from './tools/lazy-host.ts';
import { createMcpRunner } from './tools/mcp/mcp-runner.ts';
import { createMcpServerReader } from './tools/mcp/server-reader.ts';
import { createModuleRunner } from './tools/module/module-runner.ts';
import { createPythonRunner } from './tools/python/python-runner.ts';
import { createCodeCache } from './tools/sandbox/code-cache.ts';
import { createSandboxFetch } from './tools/sandbox/sandbox-fetch.ts';
import { createSandboxRunner } from './tools/sandbox/sandbox-runner.ts';
import { createSecretReader } from './tools/secrets.ts';
import { startWorker } from './worker.ts';

/** Timeout of a stop; leases then lapse by themselves. Unit: ms. */
const STOP_DEADLINE_MS = 20_000;
/** Timeout for closing tool threads and connections after all leases are released. Unit: ms. */
const TIDY_MS = 3_000;
/** Calls of uploaded code that run at a time. */
const SANDBOX_THREADS = 2;

const config = configOrExit();
const logStream = openProcessLog();
const log = pino(
  {
    level: config.log_level,
    base: { app: 'worker', worker: config.name },
    // Without the database's `detail`, which quotes rows: users' texts must not reach a log.
    serializers: {
      err: ({ name, message, stack, code }: Error & { code?: unknown }) => ({ name, message, stack, code }),
    },
  },
  logStream,
);

/** Logs the lines that the starting program waits for, whatever LOG_LEVEL is. */
const always = log.child({}, { level: 'info' });

const livezUrl = await answerLivez(config.health_host, config.health_port, logStream).catch(endWith);

const pool = createPool({
  url: config.database_url,
  max: config.database_pool_max,
  applicationName: `nightshift-worker ${config.name}`,
});
// An audit reads whole tables, so its statements need a longer timeout than those of flows.
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
  // The output of tools may hold private data, so it is logged at level debug only.
  onLog: (line, source) => log[source === 'host' ? 'warn' : 'debug'](line),
}).catch(endWith);
for (const problem of tools.listProblems()) always.warn({ ...problem }, 'tool module left out');

const db = connect(pool);
const netHost = createLazyHost(() => startNetHost({ onLog: (line) => log.warn(line) }));
const readSecrets = createSecretReader(db, config.secrets_keys);
const readCode = createCodeCache((sha256) => readToolCode(db, DEFAULT_PROJECT_ID, sha256));
const fetchOfCode = createSandboxFetch(netHost, config.tools_allow_private);
const sandboxHost = createLazyHost(async () => {
  const host = await startSandboxHost({
    fetch: fetchOfCode,
    threads: SANDBOX_THREADS,
    onLog: (line) => log.warn(line),
  });
  always.info({ layers: host.layers }, 'the sandbox host is up');
  return host;
});
const pythonJail = createLazyHost(async () => {
  try {
    const jail = await openPythonJail();
    always.info({ version: jail.version, layers: jail.layers }, 'the Python jail is up');
    return jail;
  } catch (error) {
    always.error({ reason: (error as Error).message }, 'there is no Python jail; calls to Python tools fail');
    throw error;
  }
});

const mcp: McpOfferParts = {
  ...{ db, host: netHost, readSecrets },
  programs: config.mcp_programs,
  allow_private: config.tools_allow_private,
  // Problems are logged at every LOG_LEVEL, like those with modules above.
  report: (report) => always[report.outcome === 'registered' ? 'info' : 'warn'](report, 'mcp server'),
};

// Not awaited before the signal handlers are set: flows may hold leases before the start completes.
const starting = startWorker(config, {
  pool,
  auditPool,
  provider: anthropicProvider(config.provider),
  runners: {
    module: createModuleRunner(tools, netHost),
    sandbox: createSandboxRunner(sandboxHost, {
      threads: SANDBOX_THREADS,
      readCode,
      readSecrets,
    }),
    python: createPythonRunner(pythonJail, { fetch: fetchOfCode, readCode, readSecrets }),
    http: createHttpRunner(netHost, { allow_private: config.tools_allow_private, readSecrets }),
    mcp: createMcpRunner(netHost, {
      ...mcp,
      readServer: createMcpServerReader(db),
      onChanged: createOfferRecorder(mcp),
    }),
  },
  listTools: () => tools.listTools(),
  log: {
    report: (report) => {
      // Problems with tools are logged at every LOG_LEVEL, like those with modules above.
      const target = report.flow === 'register-tools' ? always : log;
      if (report['alarm'] === true) target.error(report, report.flow);
      else if (report['warning'] === true) target.warn(report, report.flow);
      else log.info(report, report.flow);
    },
    failure: (flow, error) => {
      log.error({ flow, err: error }, 'flow failed; it will be retried');
    },
    queueError: (error) => {
      log.warn({ err: error }, 'queue error; the sweep still finds all work');
    },
  },
});

const shutdown = createShutdown();
async function stop(signal: string): Promise<void> {
  const outcome = shutdown.request();
  if (outcome === 'at once') process.exit(1);
  if (outcome === 'again') return;
  log.info({ signal }, 'worker stops');
  setTimeout(() => {
    log.error('the stop timed out; leases lapse by themselves');
    process.exit(1);
  }, STOP_DEADLINE_MS).unref();
  const worker = await starting;
  await worker.stop().catch((error: unknown) => {
    log.error({ err: error }, 'the stop failed; leases lapse by themselves');
    process.exitCode = 1;
  });
  const tidied = Promise.allSettled([
    tools.close(),
    sandboxHost.close(),
    pythonJail.close(),
    netHost.close(),
    pool.end(),
    auditPool.end(),
  ]);
  await Promise.race([tidied, new Promise((resolve) => setTimeout(resolve, TIDY_MS))]);
  log.info('worker has stopped');
  process.exit();
}
process.on('SIGTERM', (signal) => void stop(signal));
process.on('SIGINT', (signal) => void stop(signal));
if (config.exit_with_parent) {
  // A parent that ends during a stop is no second request, which would skip the rest of the stop.
  process.stdin
    .on('end', () => {
      if (!shutdown.isRequested()) void stop('end of standard input');
    })
    .resume();
}
await starting.catch((error: unknown) => endWith(explained(error, config.database_url)));
// Not awaited: calls of other tools need not wait for slow programs.
void registerMcpPrograms(mcp);
// Not awaited: a worker may run for months. A stop meanwhile has the same end.
void starting
  .then((worker) => worker.drained)
  .then(() => {
    if (shutdown.isRequested()) return;
    // The stack reads this line: it does not start a drained worker again.
    always.info('worker is drained');
    return stop('drain');
  })
  .catch(() => undefined);
always.info({ tools: tools.listTools().map((tool) => tool.name), livez: livezUrl }, 'worker is at work');

/** Exits with an error's message, or with one JSON line that holds the stack of an unexpected error. */
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
