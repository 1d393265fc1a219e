import type { IQueueBackend, JobsOptions, WorkerOptions } from 'bullmq';
import { pause } from './deadline.ts';
import type { Post, SendingLink } from './port.ts';
import type { Report } from './report.ts';
import type { QueueName, Signal } from './signal.ts';

/** Signals that wait in one queue beyond this are not added to: whoever takes the first ones will look anyway. */
const MAX_BACKLOG = 10_000;

const backlogCheckMs = 1_000;
const maxClaimPauseMs = 2_000;

/**
 * A job is gone once taken; a failed one says nothing about the work, so few are kept for a look. Attempts are for the
 * queue's own trouble (a deadlock while marking a job as done): handlers never fail a job. There is no job id of our own,
 * because a ring for a row that is being looked at right now must not be swallowed as a duplicate.
 */
const jobOptions: JobsOptions = {
  attempts: 3,
  removeOnComplete: true,
  removeOnFail: { count: 100 },
  stackTraceLimit: 1,
};

/** Queue options common to both backends. Nobody reads BullMQ's event log, so little of it is kept. */
export const queueOptions = { streams: { events: { maxLen: 100 } } } as const;

/** What both backends' queue classes can do, as far as a bell needs it. */
export interface SignalQueue {
  addBulk(jobs: { name: string; data: Signal; opts: JobsOptions }[]): Promise<unknown>;
  getWaitingCount(): Promise<number>;
}

/** Sends through these two queues, with a bound on what may pile up while nobody listens. */
export function sendThrough(
  queues: Readonly<Record<QueueName, SignalQueue>>,
  report: Report,
): SendingLink['send'] {
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

  return async (byQueue) => {
    await Promise.all([...byQueue].map(([name, signals]) => sendTo(name, signals)));
  };
}

/** Worker options common to both backends. `run()` is called by us, once the worker is known to be ready. */
export function workerOptions(
  post: Post,
  idlePollMs: number,
): Omit<WorkerOptions, 'connection'> & { readonly autorun: false } {
  return {
    autorun: false,
    concurrency: post.concurrency,
    drainDelay: idlePollMs / 1000,
    // Long, because on Postgres a lock ends by the clock of the process that looks at it.
    lockDuration: 60_000,
    // How long a claim waits after a refused connection; the default of 15 s would make every restart that slow.
    runRetryDelay: 1_000,
  };
}

/**
 * Makes a worker's claims visible and paces those that fail. A worker asks its backend for a job at least once per
 * `drainDelay` while it has room, so answered claims are its pulse. And a claim that is rejected without any I/O (readiness
 * that failed once stays failed) would otherwise be retried in a loop of microtasks that starves the process.
 */
export function observeClaims<B extends IQueueBackend>(backend: B, noteProgress: () => void): B {
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
      await pause(Math.min(50 * 2 ** Math.min(failures, 6), maxClaimPauseMs));
      throw error;
    }
  };
  return backend;
}
