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
/** How long `checkRedis` may take. */
export const checkTimeoutMs = 3_000;
const goodbyeMs = 1_000;

/** A queue with this many waiting signals takes no more: the first of them make a worker look anyway. */
const MAX_BACKLOG = 10_000;

const backlogCheckMs = 1_000;
const maxClaimPauseMs = 2_000;

/**
 * A job is gone once taken; a failed one says nothing about the work, so few are kept for a look. Attempts are for the
 * queue's own trouble: handlers never fail a job. There is no job id of our own, because a ring for a row that is being
 * looked at right now must not be swallowed as a duplicate.
 */
const jobOptions: JobsOptions = {
  attempts: 3,
  removeOnComplete: true,
  removeOnFail: { count: 100 },
  stackTraceLimit: 1,
};

/** No program reads BullMQ's event log, so little of it is kept. */
const queueOptions = { streams: { events: { maxLen: 100 } } } as const;

/**
 * Connects a sender. It neither queues commands while the connection is away nor reconnects by itself: a ring has to fail
 * at once, and the bell then opens another link.
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
        // The queues do not own the connection, so closing them says nothing to Redis.
        await settles(Promise.all(Object.values(queues).map((queue) => queue.close())), goodbyeMs);
        client.disconnect();
      },
    };
  } catch (error) {
    client.disconnect();
    throw error;
  }
}

/**
 * Starts one worker for each consumer. Their connections come back by themselves after an outage; whether the workers do too is
 * for the caller to watch.
 */
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
    // The workers' blocking connections are copies of this one, options and all.
    retryStrategy: (attempt) => (discarded ? null : Math.min(attempt * 100, 1_000)),
  });
  client.on('error', report);
  const backends: RedisQueueBackend[] = [];
  const workers: Worker<unknown, void>[] = [];

  async function discard(graceMs: number): Promise<void> {
    discarded = true;
    const closing = Promise.all(workers.map((worker) => worker.close()));
    const closed = await settles(closing, graceMs);
    // A worker does not end while its blocking connection does not, which it never does while Redis is away.
    if (!closed)
      for (const { blockingClient } of backends) blockingClient?.then(disconnectForGood, () => undefined);
    disconnectForGood(client);
    await settles(closing, goodbyeMs);
  }

  try {
    await within(client.connect(), readyTimeoutMs, 'connecting to Redis');
    await assertRedisAllowed(target, checkRedis);
    const options: Omit<WorkerOptions, 'connection'> = {
      // `run()` is called by us, once the worker is known to be ready.
      autorun: false,
      drainDelay: idlePollMs / 1000,
      lockDuration: 60_000,
      // How long a claim waits after a refused connection; the default of 15 s would make every restart that slow.
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
    await discard(goodbyeMs);
    throw error;
  }
  return { isRunning: () => workers.every((worker) => worker.isRunning()), discard };
}

/** Resolves with what speaks against this Redis, null when it may carry the queue. Rejects when it could not be asked. */
export type CheckRedis = (url: string) => Promise<string | null>;

/** Turns the check's objection into a refusal, which is not retried; a check that fails or takes too long is an outage. */
export async function assertRedisAllowed(
  target: QueueTarget,
  checkRedis: CheckRedis | undefined,
): Promise<void> {
  if (checkRedis === undefined) return;
  const objection = await within(checkRedis(target.url), checkTimeoutMs, 'checking Redis').catch(
    (error: unknown) => {
      // Only what it says: on the errors of clients hangs the failed command, AUTH with its password included.
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
 * A client that is told to disconnect while it waits for its next attempt stays "reconnecting" for ever: it neither ends nor
 * fails its commands, and a worker that waits for either keeps its timers, and so the process. One more attempt, after
 * which no other follows, gets it out of there.
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

/** Sends through these two queues, with a bound on the signals that wait without a listener. */
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
          `${name} holds ${MAX_BACKLOG} signals or more, new ones are not added: is a worker running?`,
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
 * Makes a worker's claims visible and paces those that fail. A worker asks its backend for a job at least once per
 * `drainDelay` while it has room, so answered claims are its pulse. And a claim that is rejected without any I/O (readiness
 * that failed once stays failed) would otherwise be retried in a loop of microtasks that starves the process.
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
