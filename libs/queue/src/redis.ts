import { setTimeout as sleep } from 'node:timers/promises';
import {
  createRedisBackend,
  Queue,
  Worker,
  type IRedisClient,
  type JobsOptions,
  type RedisQueueBackend,
  type WorkerOptions,
} from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { NightshiftError } from '@nightshift/agent-core';
import { settles, within } from './deadline.ts';
import type { ReceivingLink, SendingLink } from './port.ts';
import type { QueueTarget } from './queue-url.ts';
import type { Report } from './report.ts';
import { queueOf, type QueueName, type Signal } from './signal.ts';
import type { Consumers } from './consumer.ts';

const readyTimeoutMs = 3_000;
/** Timeout of `checkRedis`. */
export const checkTimeoutMs = 3_000;
const disconnectTimeoutMs = 1_000;

/** Number of waiting signals at which a queue takes no more: the first of them already wake the workers. */
const MAX_BACKLOG = 10_000;

const backlogCheckMs = 1_000;
const maxClaimPauseMs = 2_000;

/**
 * A job is deleted once taken. Handlers never fail a job, so attempts cover only failures of the queue itself, and few failed
 * jobs are kept. Jobs have no id of ours: a signal for a row under work must not be dropped as a duplicate.
 */
const jobOptions: JobsOptions = {
  attempts: 3,
  removeOnComplete: true,
  removeOnFail: { count: 100 },
  stackTraceLimit: 1,
};

/** Limits BullMQ's event log, which no program reads. */
const queueOptions = { streams: { events: { maxLen: 100 } } } as const;

/**
 * Connects a sender. It neither queues commands offline nor reconnects: a ring must fail at once, and the bell then opens
 * another link.
 */
export async function openRedisSender(
  target: QueueTarget,
  connectTimeoutMs: number,
  checkRedis: CheckRedis | undefined,
  report: Report,
): Promise<SendingLink> {
  const client = connect(target, {
    connectTimeout: connectTimeoutMs,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  client.on('error', report);
  try {
    await within(client.connect(), connectTimeoutMs, 'connecting to Redis');
    await assertRedisAllowed(target, checkRedis);
    const options = { ...queueOptions, connection: client, prefix: target.prefix };
    const queues = { control: new Queue('control', options), work: new Queue('work', options) };
    for (const queue of Object.values(queues)) queue.on('error', report);
    return {
      send: sendThrough(queues, report),
      async discard() {
        // The queues do not own the connection, so `close` sends nothing to Redis.
        await settles(Promise.all(Object.values(queues).map((queue) => queue.close())), disconnectTimeoutMs);
        client.disconnect();
      },
    };
  } catch (error) {
    client.disconnect();
    throw error;
  }
}

/** Starts one worker for each consumer. Connections recover by themselves after an outage; the caller watches the workers. */
export async function openRedisReceiver(
  target: QueueTarget,
  consumers: Consumers,
  idlePollMs: number,
  checkRedis: CheckRedis | undefined,
  report: Report,
): Promise<ReceivingLink> {
  let discarded = false;
  const client = connect(target, {
    connectTimeout: readyTimeoutMs,
    maxRetriesPerRequest: null,
    // The workers' blocking connections copy this connection with its options.
    retryStrategy: (attempt) => (discarded ? null : Math.min(attempt * 100, 1_000)),
  });
  client.on('error', report);
  const backends: RedisQueueBackend[] = [];
  const workers: Worker<unknown, void>[] = [];

  async function discard(graceMs: number): Promise<void> {
    discarded = true;
    const closing = Promise.all(workers.map((worker) => worker.close()));
    const closed = await settles(closing, graceMs);
    // A worker waits for its blocking connection to end, which never happens while Redis is away.
    if (!closed)
      for (const { blockingClient } of backends) blockingClient?.then(disconnectForGood, () => undefined);
    disconnectForGood(client);
    await settles(closing, disconnectTimeoutMs);
  }

  try {
    await within(client.connect(), readyTimeoutMs, 'connecting to Redis');
    await assertRedisAllowed(target, checkRedis);
    const options: Omit<WorkerOptions, 'connection'> = {
      // `run()` is called below, once the workers are ready.
      autorun: false,
      drainDelay: idlePollMs / 1000,
      lockDuration: 60_000,
      // Pause of a claim after a refused connection; the default of 15 s would delay every restart.
      runRetryDelay: 1_000,
    };
    for (const consumer of Object.values(consumers)) {
      const worker = new Worker<unknown, void>(
        consumer.name,
        (job) => consumer.handle(job.data),
        { ...options, connection: client, prefix: target.prefix },
        (...args) => {
          const backend = observeClaims(createRedisBackend(...args), consumer.noteProgress);
          backends.push(backend);
          return backend;
        },
      );
      worker.on('error', report);
      workers.push(worker);
    }
    await within(
      Promise.all(workers.map((worker) => worker.waitUntilReady())),
      readyTimeoutMs,
      'starting the Redis workers',
    );
    for (const worker of workers) worker.run().catch(report);
  } catch (error) {
    await discard(disconnectTimeoutMs);
    throw error;
  }
  return { isRunning: () => workers.every((worker) => worker.isRunning()), discard };
}

/** Returns the reason why a Redis must not carry signals, null when it may. Rejects when Redis does not answer. */
export type CheckRedis = (url: string) => Promise<string | null>;

/**
 * Checks a Redis. A refusal is not retried; a check that fails or times out counts as an outage.
 * Throws: `bad_configuration` when the check refuses, another error when it fails.
 */
export async function assertRedisAllowed(
  target: QueueTarget,
  checkRedis: CheckRedis | undefined,
): Promise<void> {
  if (checkRedis === undefined) return;
  const objection = await within(checkRedis(target.url), checkTimeoutMs, 'checking Redis').catch(
    (error: unknown) => {
      // The message only: client errors hold the failed command, for example AUTH with its password.
      throw new Error(error instanceof Error ? error.message : String(error));
    },
  );
  if (objection !== null)
    throw new NightshiftError(
      'bad_configuration',
      `QUEUE_URL names a Redis that cannot be used: ${objection}`,
    );
}

function connect(target: QueueTarget, options: RedisOptions): Redis {
  return new Redis(target.url, { ...options, lazyConnect: true });
}

/**
 * Disconnects a client, also between two reconnects. Without the extra attempt such a client stays "reconnecting" for ever:
 * it neither ends nor fails its commands, and its worker keeps the process alive.
 */
function disconnectForGood(client: Pick<IRedisClient, 'status' | 'connect' | 'disconnect'>): void {
  client.disconnect();
  if (client.status !== 'reconnecting') return;
  client.connect().then(
    () => {
      client.disconnect();
    },
    () => undefined,
  );
}

/** Creates the `send` function, which limits the backlog of each queue. */
function sendThrough(queues: Readonly<Record<QueueName, Queue>>, report: Report): SendingLink['send'] {
  const backlogs = new Map<QueueName, { size: number; readAtMs: number }>();

  async function backlogOf(name: QueueName): Promise<number> {
    const known = backlogs.get(name);
    const nowMs = performance.now();
    if (known !== undefined && nowMs - known.readAtMs < backlogCheckMs) return known.size;
    const size = await queues[name].getWaitingCount();
    backlogs.set(name, { size, readAtMs: nowMs });
    return size;
  }

  async function sendTo(name: QueueName, signals: readonly Signal[]): Promise<void> {
    if ((await backlogOf(name)) >= MAX_BACKLOG) {
      report(
        new Error(
          `${name} holds ${MAX_BACKLOG} signals or more, so new signals are dropped: is a worker running?`,
        ),
      );
      return;
    }
    await queues[name].addBulk(
      signals.map(({ kind, id }) => ({ name: kind, data: { kind, id }, opts: jobOptions })),
    );
  }

  return async (signals) => {
    const byQueue = Map.groupBy(signals, ({ kind }) => queueOf(kind));
    await Promise.all([...byQueue].map(([name, ofQueue]) => sendTo(name, ofQueue)));
  };
}

/**
 * Reports a worker's claims as its heartbeat and delays failed claims. A free worker claims at least once per `drainDelay`.
 * A claim that fails without I/O would otherwise be retried in a loop of microtasks that starves the process.
 */
function observeClaims(backend: RedisQueueBackend, noteProgress: () => void): RedisQueueBackend {
  const claim = backend.moveToActive.bind(backend);
  let failures = 0;
  backend.moveToActive = async (token, name) => {
    try {
      const claimed: unknown[] = await claim(token, name);
      failures = 0;
      noteProgress();
      return claimed;
    } catch (error) {
      failures += 1;
      await sleep(Math.min(50 * 2 ** Math.min(failures, 6), maxClaimPauseMs));
      throw error;
    }
  };
  return backend;
}
