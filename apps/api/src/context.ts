import type { PriceTable } from '@nightshift/agent-core';
import type { Database } from '@nightshift/db';
import type { SecretsKeys } from '@nightshift/intake';
import type { QueueBackendName, Signal } from '@nightshift/queue';
import type { PythonJail } from '@nightshift/python-jail';
import type { LogStatus } from '@nightshift/services';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Disk } from './disk.ts';
import type { BatchWatch } from './streams/batch-watch.ts';
import type { EventFeed } from './streams/event-feed.ts';
import type { Streams } from './streams/sse.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** A Fastify instance whose routes are typed by their Zod schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/** The dependencies of routes. */
export interface Context {
  readonly db: Database;
  /** For audits, whose statements may take longer than those of requests. */
  readonly auditDb: Database;
  /** Wakes workers. Ring it after a commit, never inside a transaction. */
  readonly bell: { ring(signals: readonly Signal[]): Promise<void> };
  readonly queue: {
    readonly backend: QueueBackendName;
    /** Throws: a sentence, if the queue does not answer or must not carry signals. */
    check(): Promise<void>;
  };
  /** The disk of this process's files; null if it cannot be seen. */
  disk(): Promise<Disk | null>;
  /** The project of every row. */
  readonly projectId: string;
  /** The provider of the answers, so that users do not mistake simulated answers for real answers. */
  readonly model: 'simulator' | 'anthropic';
  /** Prices of models. */
  readonly prices: PriceTable;
  /** Keys of secrets; the API encrypts, and decrypts only to read the tools of an MCP server. */
  readonly secretsKeys: SecretsKeys;
  /** Whether MCP servers may have addresses inside a private network. */
  readonly toolsAllowPrivate: boolean;
  /** Opens the jail of uploaded Python, once. Throws: Error that says why there is none. */
  openPython(): Promise<PythonJail>;
  readonly version: string;
  /** Downloads that this process sends, and their limit. */
  readonly downloads: { open: number; readonly max: number };
  /** Event streams of this process. */
  readonly streams: Streams;
  readonly batchWatch: BatchWatch;
  readonly eventFeed: EventFeed;
  /** Status of the process's log. */
  logStatus(): LogStatus;
  /** False once the server is shutting down. */
  isOpen(): boolean;
}
