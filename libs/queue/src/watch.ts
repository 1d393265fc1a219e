import { setTimeout as sleep } from 'node:timers/promises';
import { isError } from '@nightshift/agent-core';
import { settles } from './deadline.ts';
import type { ReceivingLink } from './port.ts';
import type { Report } from './report.ts';
import type { Consumer } from './consumer.ts';

export interface WatchTimings {
  /** How long `close()` waits for handlers that are at work. */
  readonly closeTimeoutMs: number;
  /** A link whose pulse is older than this is replaced. */
  readonly silentAfterMs: number;
}

export interface WatchOptions {
  readonly open: () => Promise<ReceivingLink>;
  /** Called after every opening but the first attempt. */
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
/** Time without work to say goodbye to a backend that may be gone. */
const idleGraceMs = 1_500;
/** An attempt to open ends by its own timeouts; this only bounds the wait for it. */
const openingGraceMs = 2_000;

/**
 * Keeps a link open: looks at its pulse, replaces it when it fell silent, tries again while the backend is away.
 * Resolves after the first attempt; rejects only when the backend was refused.
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
      // New connections start with a fresh pulse.
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
    // A process that was itself asleep finds every pulse old: let one more round pass before blaming the backend.
    await sleep(checkEveryMs, undefined, { signal });
    if (isHealthy()) return;
    report(new Error('the queue fell silent; its connections are replaced'));
    const silent = link;
    link = undefined;
    await silent.discard(idleGraceMs);
  }

  async function keepManned(): Promise<void> {
    while (!signal.aborted) {
      if (link === undefined) {
        const pauseMs = Math.min(reopenPauseMs * 2 ** failures, maxReopenPauseMs);
        // With jitter: the processes of an installation lose their connections together.
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
  const keeping = keepManned().catch((error: unknown) => {
    if (!signal.aborted) report(error);
  });

  async function end(): Promise<void> {
    for (const consumer of consumers) consumer.shut();
    closing.abort();
    const ended = await settles(keeping, openingGraceMs);
    const isBusy = consumers.some((consumer) => consumer.isBusy());
    await link?.discard(isBusy ? timings.closeTimeoutMs : Math.min(timings.closeTimeoutMs, idleGraceMs));
    // A link that opens after all finds itself unwanted.
    if (!ended) void keeping.then(() => link?.discard(0));
  }

  let ending: Promise<void> | undefined;
  return {
    isAlive: () => !signal.aborted && isHealthy(),
    close: () => (ending ??= end()),
  };
}
