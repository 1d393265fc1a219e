import { setTimeout as sleep } from 'node:timers/promises';
import { isError } from '@nightshift/agent-core';
import { settles } from './deadline.ts';
import type { ReceivingLink } from './port.ts';
import type { Report } from './report.ts';
import type { Consumer } from './consumer.ts';

export interface WatchTimings {
  /** Maximum wait of `close()` for running handlers. */
  readonly closeTimeoutMs: number;
  /** Age of the last answer at which a link is replaced. */
  readonly silentAfterMs: number;
}

export interface WatchOptions {
  readonly open: () => Promise<ReceivingLink>;
  /** Called after each reconnect. */
  readonly onReopened: () => void;
  readonly consumers: readonly Consumer[];
  readonly timings: WatchTimings;
  readonly report: Report;
}

export interface Watch {
  readonly isAlive: () => boolean;
  readonly close: () => Promise<void>;
}

const checkEveryMs = 500;
const reopenPauseMs = 250;
const maxReopenPauseMs = 5_000;
/** Time for idle connections to close; the backend may be gone. Unit: ms. */
const idleGraceMs = 1_500;
/** Maximum wait for an opening attempt, which has its own timeouts. Unit: ms. */
const openingGraceMs = 2_000;

/**
 * Keeps a link open: checks its heartbeat, replaces a silent link, and reconnects with backoff.
 * Resolves after the first attempt to connect.
 * Throws: `bad_configuration` when the backend is refused.
 */
export async function startWatch({
  open,
  onReopened,
  consumers,
  timings,
  report,
}: WatchOptions): Promise<Watch> {
  const closing = new AbortController();
  const { signal } = closing;
  let link: ReceivingLink | undefined;
  let failures = 0;

  async function tryOpen(): Promise<void> {
    try {
      const opened = await open();
      // New connections start with a fresh heartbeat.
      for (const { noteProgress } of consumers) noteProgress();
      failures = 0;
      link = opened;
    } catch (error) {
      failures += 1;
      throw error;
    }
  }

  function isHealthy(): boolean {
    return (
      link?.isRunning() === true && !consumers.some((consumer) => consumer.isSilent(timings.silentAfterMs))
    );
  }

  async function replaceWhenSilent(): Promise<void> {
    if (link === undefined || isHealthy()) return;
    // After a stall of this process every heartbeat is old: wait one more round before the backend is to blame.
    await sleep(checkEveryMs, undefined, { signal });
    if (isHealthy()) return;
    report(new Error('the queue is silent; its connections are replaced'));
    const silent = link;
    link = undefined;
    await silent.discard(idleGraceMs);
  }

  async function keepOpen(): Promise<void> {
    while (!signal.aborted) {
      if (link === undefined) {
        const pauseMs = Math.min(reopenPauseMs * 2 ** failures, maxReopenPauseMs);
        // With jitter, since all processes of an installation lose their connections together.
        await sleep(pauseMs * (0.5 + Math.random() / 2), undefined, { signal });
        await tryOpen().then(onReopened, report);
      } else {
        await sleep(checkEveryMs, undefined, { signal });
        await replaceWhenSilent();
      }
    }
  }

  try {
    await tryOpen();
  } catch (error) {
    if (isError(error, 'bad_configuration')) throw error;
    report(error);
  }
  const keeping = keepOpen().catch((error: unknown) => {
    if (!signal.aborted) report(error);
  });

  async function end(): Promise<void> {
    for (const consumer of consumers) consumer.shut();
    closing.abort();
    const ended = await settles(keeping, openingGraceMs);
    const isBusy = consumers.some((consumer) => consumer.isBusy());
    await link?.discard(isBusy ? timings.closeTimeoutMs : Math.min(timings.closeTimeoutMs, idleGraceMs));
    // A link that opens later is discarded at once.
    if (!ended) void keeping.then(() => link?.discard(0));
  }

  let ending: Promise<void> | undefined;
  return {
    isAlive: () => !signal.aborted && isHealthy(),
    close: () => (ending ??= end()),
  };
}
