import type { PriceTable } from '@nightshift/agent-core';
import type { Database } from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import type { LogStatus } from '@nightshift/services';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** A Fastify instance whose routes are typed by their Zod schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/** What routes work with. */
export interface Context {
  readonly db: Database;
  /** For an audit, whose statements may take longer than those of a request. */
  readonly auditDb: Database;
  /** Wakes workers; rung after a commit, never inside a transaction. */
  readonly bell: { ring(signals: readonly Signal[]): Promise<void> };
  /** The project that every row belongs to. */
  readonly projectId: string;
  /** Who answers the requests of runs: shown wherever a user could mistake one for the other. */
  readonly model: 'simulator' | 'anthropic';
  /** What models cost. */
  readonly prices: PriceTable;
  readonly version: string;
  /** How the process's own log fares. */
  logStatus(): LogStatus;
  /** False once the server is shutting down. */
  isOpen(): boolean;
}
