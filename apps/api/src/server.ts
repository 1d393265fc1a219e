import { randomUUID } from 'node:crypto';
import { SHIPPED_PRICES, type PriceTable } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, inTransaction, registerMemoryTools, type Database } from '@nightshift/db';
import Fastify, { LogController, type FastifyServerOptions } from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { requireKey } from './auth.ts';
import { createHeldBytes, giveBackOfThread, holdBodies, type HeldBytes } from './body-budget.ts';
import type { App, Context } from './context.ts';
import { drainConnections } from './drain.ts';
import { answerError, answerErrors } from './errors/answer-errors.ts';
import { answerClientError, HEADER_BYTES_MAX } from './errors/client-error.ts';
import { acceptJsonOnly, BODY_BYTES_TOGETHER_MAX, BODY_LIMIT_BYTES } from './json-body.ts';
import { handOverLargeBodies } from './large-bodies/hand-over.ts';
import { handedOver } from './large-bodies/handed-over.ts';
import { createLargeBodyThread } from './large-bodies/start-thread.ts';
import type { ThreadSettings } from './large-bodies/protocol.ts';
import { refuseNul } from './nul.ts';
import { describeRoutes, serveDocument } from './openapi.ts';
import { coerceQuery } from './query.ts';
import { logRequests } from './request-log.ts';
import { keyedRoutes, openRoutes } from './routes/routes.ts';

/** The version of the HTTP surface. */
export const API_VERSION = '0.1.0';

/** What the server needs from its maker. */
export interface ServerDeps {
  readonly db: Database;
  /** For audits; default: `db`. */
  readonly auditDb?: Database;
  readonly bell: Context['bell'];
  readonly apiKey: string;
  /** Who answers the requests of runs; shown by health and models. */
  readonly model: Context['model'];
  /** What models cost; default: the table that this release comes with. */
  readonly prices?: PriceTable;
  /** Bytes of all bodies that are held at once, with what is made of them; default: {@link BODY_BYTES_TOGETHER_MAX}. */
  readonly bodyBytesMax?: number;
  /** For the connections of the thread of large bodies; without it they are worked on in this thread. */
  readonly databaseUrl?: string;
  /** In the thread of large bodies: what all threads hold of `bodyBytesMax`. */
  readonly heldBytes?: HeldBytes;
  /** Pino's options; default false, which logs nothing. */
  readonly logger?: FastifyServerOptions['logger'];
  /** How the log of `logger` fares; default: well. */
  readonly logStatus?: Context['logStatus'];
}

/** Pino's number for lines of level `error`. */
const ERROR_LEVEL = 50;

/** Milliseconds. A body of 256 MB must be able to arrive; headers must not dawdle; a silent socket is not kept for ever. */
const TIMES = {
  requestTimeout: 120_000,
  headersTimeout: 10_000,
  connectionTimeout: 90_000,
  // Longer than most load balancers keep theirs, so that it is they who close.
  keepAliveTimeout: 65_000,
};

/**
 * Builds the server: routes, key, errors, one log line a request. It listens when its maker says so, and works with
 * `inject` without. On ready it makes the built-in tools known. The maker closes `db`, `auditDb` and `bell`.
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
    return503OnClosing: true,
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
  // The main thread logs each request, and makes tools known.
  const isMain = deps.heldBytes === undefined;
  if (isMain) logRequests(app);
  drainConnections(app);
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
  });
  app.addHook('preValidation', coerceQuery);
  app.addHook('preHandler', refuseNul);
  app.addHook('preClose', async () => {
    isOpen = false;
  });
  app.addHook('onReady', async () => {
    if (isMain) await inTransaction(deps.db, (trx) => registerMemoryTools(trx, DEFAULT_PROJECT_ID));
  });

  const context: Context = {
    db: deps.db,
    auditDb: deps.auditDb ?? deps.db,
    bell: deps.bell,
    projectId: DEFAULT_PROJECT_ID,
    model: deps.model,
    prices: deps.prices ?? SHIPPED_PRICES,
    version: API_VERSION,
    logStatus: deps.logStatus ?? (() => ({ dropped_lines: 0, failing: null })),
    isOpen: () => isOpen,
  };
  describeRoutes(app, API_VERSION);
  void app.register(async (open: App) => {
    openRoutes(open, context);
    serveDocument(open);
  });
  void app.register(async (keyed: App) => {
    keyed.addHook('onRequest', requireKey(deps.apiKey));
    const { apiKey, model, databaseUrl, bodyBytesMax = BODY_BYTES_TOGETHER_MAX } = deps;
    const heldBytes = deps.heldBytes ?? createHeldBytes();
    holdBodies(keyed, bodyBytesMax, heldBytes);
    if (databaseUrl !== undefined) {
      const { prices, bell } = context;
      openThread(keyed, { apiKey, model, prices, bodyBytesMax, heldBytes, databaseUrl }, bell);
    }
    keyedRoutes(keyed, context);
  });
  return app;
}

/** Hands large bodies over to a thread, which ends with the server. */
function openThread(app: App, settings: ThreadSettings, bell: Context['bell']): void {
  const thread = createLargeBodyThread(settings, {
    onRing: (signals) => void bell.ring(signals),
    onLog: (line) => {
      const { level, msg, ...rest } = JSON.parse(line) as { level: number; msg: string };
      if (level >= ERROR_LEVEL) app.log.error(rest, msg);
      else app.log.warn(rest, msg);
    },
    onExit: () => giveBackOfThread(settings.heldBytes),
  });
  handOverLargeBodies(app, thread);
  app.addHook('onClose', () => thread.stop());
}
