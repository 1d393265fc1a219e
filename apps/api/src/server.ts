import { randomUUID } from 'node:crypto';
import { NightshiftError, SHIPPED_PRICES, type PriceTable } from '@nightshift/agent-core';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  readEvents,
  readLastEventPlace,
  readProgress,
  registerMemoryTools,
  type Database,
  type EventPlace,
} from '@nightshift/db';
import { NO_SECRETS_KEYS, type SecretsKeys } from '@nightshift/intake';
import { openPythonJail } from '@nightshift/python-jail';
import Fastify, { LogController, type FastifyServerOptions } from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { requireKey } from './auth.ts';
import {
  createHeldBytes,
  giveBackOfThread,
  holdBodies,
  type HeldBytes,
  type ThreadPlace,
} from './body-budget.ts';
import type { App, Context } from './context.ts';
import { serveDashboard } from './dashboard.ts';
import { drainConnections } from './drain.ts';
import { answerError, answerErrors } from './errors/answer-errors.ts';
import { answerClientError, HEADER_BYTES_MAX } from './errors/client-error.ts';
import { acceptJsonOnly, BODY_BYTES_TOGETHER_MAX, BODY_LIMIT_BYTES } from './json-body.ts';
import { handOverLargeBodies } from './large-bodies/hand-over.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { createLargeBodyThread, type ThreadEvents } from './large-bodies/start-thread.ts';
import type { ThreadSettings } from './large-bodies/protocol.ts';
import { refuseNul } from './nul.ts';
import { limitBodyTime } from './body-time.ts';
import { describeRoutes, serveDocument } from './openapi.ts';
import { coerceQuery } from './query.ts';
import { serveReferencePage } from './reference-page.ts';
import { logRequests } from './request-log.ts';
import { keyedRoutes, openRoutes } from './routes/routes.ts';
import { sessionLinks, sessions } from './routes/session/session.ts';
import { createBatchWatch } from './streams/batch-watch.ts';
import { createEventFeed } from './streams/event-feed.ts';
import { createStreams } from './streams/sse.ts';

/** The version of the HTTP API. */
export const API_VERSION = '0.1.0';

/** Dependencies of the server. */
export interface ServerDeps {
  readonly db: Database;
  /** For audits; default: `db`. */
  readonly auditDb?: Database;
  readonly bell: Context['bell'];
  /** Default: no queue. */
  readonly queue?: Context['queue'];
  /** Default: a disk that cannot be seen. */
  readonly disk?: Context['disk'];
  readonly apiKey: string;
  /** The provider of the answers; shown by health and models. */
  readonly model: Context['model'];
  /** Prices of models. Default: the table of this release. */
  readonly prices?: PriceTable;
  /** Default: none, so that no secret can be stored. */
  readonly secretsKeys?: SecretsKeys;
  /** Default: false. */
  readonly toolsAllowPrivate?: boolean;
  /** Default: the machine's jail, opened at the first upload of Python. */
  readonly openPython?: Context['openPython'];
  /** Limit of all bodies and derived data held at once. Unit: bytes. Default: {@link BODY_BYTES_TOGETHER_MAX}. */
  readonly bodyBytesMax?: number;
  /** Most event streams at once. Default: {@link EVENT_STREAMS_MAX}. */
  readonly eventStreamsMax?: number;
  /** Most downloads at once. Default: {@link DOWNLOADS_MAX}. */
  readonly downloadsMax?: number;
  /** For connections of the thread of large bodies. Without it this thread handles large bodies. */
  readonly databaseUrl?: string;
  /** For the thread of large bodies: the bytes that all threads hold. */
  readonly heldBytes?: HeldBytes;
  /** For a thread: the place of its bytes among them. Default: of large bodies. */
  readonly threadPlace?: ThreadPlace | undefined;
  /** Folder of the built dashboard. Default: none is served. */
  readonly dashboardDir?: string;
  /** Pino's options. Default: false (no log). */
  readonly logger?: FastifyServerOptions['logger'];
  /** Status of the log. Default: no problems. */
  readonly logStatus?: Context['logStatus'];
}

/** Default limit of event streams. */
export const EVENT_STREAMS_MAX = 1_000;
/** Default limit of downloads: each holds two pages of results in memory for as long as its client reads. */
export const DOWNLOADS_MAX = 20;

/** Pino's number of the level `error`. */
const ERROR_LEVEL = 50;

/**
 * Heap of the thread of uploads. Unit: MB. With a limit far above the portions it holds, V8 collects garbage early; without,
 * the memory of an upload doubles.
 */
const UPLOAD_HEAP = { maxYoungGenerationSizeMb: 32, maxOldGenerationSizeMb: 512 };

/** Longest time for a body. Unit: milliseconds. Long enough for 256 MB. */
const BODY_MS_MAX = 120_000;

/** Unit: milliseconds. Short for headers and idle sockets. */
const TIMES = {
  // An upload may take hours; `limitBodyTime` limits other bodies.
  requestTimeout: 0,
  headersTimeout: 10_000,
  connectionTimeout: 90_000,
  // Longer than most load balancers, so that the load balancer closes first.
  keepAliveTimeout: 65_000,
};

/**
 * Builds the server with routes, key check, errors and request log. The caller starts listening, or uses `inject`. Registers
 * the built-in tools when ready. The caller closes `db`, `auditDb` and `bell`.
 */
export function buildServer(deps: ServerDeps): App {
  let isOpen = true;
  const app = Fastify({
    logger: deps.logger ?? false,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    requestIdHeader: false,
    genReqId: () => handedOver.getStore()?.request_id ?? randomUUID(),
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: TIMES.requestTimeout,
    connectionTimeout: TIMES.connectionTimeout,
    keepAliveTimeout: TIMES.keepAliveTimeout,
    http: { headersTimeout: TIMES.headersTimeout, maxHeaderSize: HEADER_BYTES_MAX },
    maxRequestsPerSocket: 10_000,
    // The first hook answers with a problem.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    frameworkErrors: answerError,
    clientErrorHandler: answerClientError,
    onProtoPoisoning: 'error',
    onConstructorPoisoning: 'error',
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500 },
  }).withTypeProvider<ZodTypeProvider>();

  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  acceptJsonOnly(app, deps.databaseUrl !== undefined);
  answerErrors(app);
  // Only the main thread logs requests and registers tools.
  const isMain = deps.heldBytes === undefined;
  if (isMain) logRequests(app);
  drainConnections(app);
  limitBodyTime(app, BODY_MS_MAX);
  app.addHook('onRequest', async (request, reply) => {
    if (!isOpen) throw new NightshiftError('not_ready', 'The server is shutting down.');
    void reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
  });
  app.addHook('preValidation', coerceQuery);
  app.addHook('preHandler', refuseNul);
  const streams = createStreams(deps.eventStreamsMax ?? EVENT_STREAMS_MAX);
  app.addHook('preClose', async () => {
    isOpen = false;
    streams.close();
  });
  app.addHook('onReady', async () => {
    if (isMain) await inTransaction(deps.db, (trx) => registerMemoryTools(trx, DEFAULT_PROJECT_ID));
  });

  const context: Context = {
    db: deps.db,
    auditDb: deps.auditDb ?? deps.db,
    downloads: { open: 0, max: deps.downloadsMax ?? DOWNLOADS_MAX },
    bell: deps.bell,
    queue: deps.queue ?? { backend: 'none', check: async () => undefined },
    disk: deps.disk ?? (async () => null),
    projectId: DEFAULT_PROJECT_ID,
    model: deps.model,
    prices: deps.prices ?? SHIPPED_PRICES,
    secretsKeys: deps.secretsKeys ?? NO_SECRETS_KEYS,
    toolsAllowPrivate: deps.toolsAllowPrivate ?? false,
    openPython: deps.openPython ?? onceOpened(openPythonJail),
    version: API_VERSION,
    ...streamSources(deps.db, (error) => app.log.warn({ err: error }, 'event_stream')),
    streams,
    logStatus: deps.logStatus ?? (() => ({ dropped_lines: 0, failing: null })),
    isOpen: () => isOpen,
  };
  describeRoutes(app, API_VERSION);
  void app.register(async (open: App) => {
    openRoutes(open, context);
    sessions(open, context, deps.apiKey);
    serveDocument(open);
    if (deps.dashboardDir !== undefined) serveDashboard(open, deps.dashboardDir);
    serveReferencePage(open);
  });
  void app.register(async (keyed: App) => {
    keyed.addHook('onRequest', requireKey(deps.apiKey, deps.db));
    const { apiKey, model, databaseUrl, bodyBytesMax = BODY_BYTES_TOGETHER_MAX } = deps;
    const heldBytes = deps.heldBytes ?? createHeldBytes();
    holdBodies(keyed, bodyBytesMax, heldBytes, deps.threadPlace);
    if (databaseUrl !== undefined) {
      const { prices, secretsKeys, toolsAllowPrivate, bell } = context;
      const shared = { prices, secretsKeys, toolsAllowPrivate, bodyBytesMax, heldBytes };
      openThread(keyed, { apiKey, model, databaseUrl, ...shared }, bell);
    }
    keyedRoutes(keyed, context);
    sessionLinks(keyed, context, apiKey);
  });
  return app;
}

/** Keeps an opened jail. After a failure the next call tries again, so that an operator can mend it. */
function onceOpened(open: Context['openPython']): Context['openPython'] {
  let opened: ReturnType<Context['openPython']> | undefined;
  return () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
}

/** Creates the sources of event streams. */
function streamSources(
  db: Database,
  onError: (error: unknown) => void,
): Pick<Context, 'batchWatch' | 'eventFeed'> {
  const reads = {
    readAfter: (place: EventPlace, limit: number) => readEvents(db, DEFAULT_PROJECT_ID, place, limit),
    readLastPlace: () => readLastEventPlace(db),
  };
  return {
    batchWatch: createBatchWatch((batches) => readProgress(db, DEFAULT_PROJECT_ID, batches), onError),
    eventFeed: createEventFeed(reads, onError),
  };
}

/** Passes large bodies and uploads to threads, which end with the server. */
function openThread(app: App, settings: ThreadSettings, bell: Context['bell']): void {
  const eventsOf = (place: ThreadPlace): ThreadEvents => ({
    onRing: (signals) => void bell.ring(signals),
    onLog: (line) => {
      const { level, msg, ...rest } = JSON.parse(line) as { level: number; msg: string };
      if (level >= ERROR_LEVEL) app.log.error(rest, msg);
      else app.log.warn(rest, msg);
    },
    onExit: () => giveBackOfThread(settings.heldBytes, place),
  });
  const thread = createLargeBodyThread(settings, eventsOf(1));
  const uploadThread = createLargeBodyThread({ ...settings, threadPlace: 2 }, eventsOf(2), UPLOAD_HEAP);
  handOverLargeBodies(app, thread, uploadThread);
  app.addHook('onClose', async () => {
    await Promise.all([thread.stop(), uploadThread.stop()]);
  });
}
