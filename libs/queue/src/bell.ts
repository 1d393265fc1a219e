import { isError } from '@nightshift/agent-core';
import { settles, within } from './deadline.ts';
import type { SendingLink } from './port.ts';
import { openPostgresSender } from './postgres.ts';
import { parseQueueUrl, type QueueBackendName, type QueueTarget } from './queue-url.ts';
import { checkTimeoutMs, openRedisSender, type CheckRedis } from './redis.ts';
import { createReopeningLink } from './reopening-link.ts';
import { throttleErrors, type Report } from './report.ts';
import { coalesce, type Signal } from './signal.ts';

/** The sender of signals. Flows and routes ring it only after their transaction has committed. */
export interface Bell {
  readonly backend: QueueBackendName;
  /**
   * Sends the signals, equal ones once; very many become one `'*'` per kind. Never rejects and never takes longer than
   * `ringTimeoutMs`: a failed signal is lost, which costs only latency.
   */
  ring(signals: readonly Signal[]): Promise<void>;
  /** Waits for rings under way, then closes all connections; takes at most a few seconds. Never rejects. */
  close(): Promise<void>;
}

export interface BellOptions {
  /** `redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`. */
  readonly queueUrl: string;
  /** Prefix of queue names, the same for bell and listener. Default: `nightshift`. */
  readonly prefix?: string;
  /** Receives errors of the backend and of lost signals, each kind of message at most once in ten seconds. */
  onError(error: Error): void;
  /** Checks each opened Redis and may refuse it, for example because it evicts keys. */
  readonly checkRedis?: CheckRedis | undefined;
  /** Timeout of a ring. Default: 1,000 ms. */
  readonly ringTimeoutMs?: number;
}

const connectTimeoutMs = 2_000;
const defaultRingTimeoutMs = 1_000;
/** Timeout of a ring while the backend is known to be away. */
const ringTimeoutWhenAwayMs = 100;
const reopenPauseMs = 250;
const maxRingsUnderWay = 1_000;

/**
 * Opens a bell. An unreachable backend is reported and not thrown, so that accepting work never depends on it; the bell
 * reconnects by itself. Takes at most two seconds, and three more to check a Redis.
 * Throws: for an unusable URL, and when `checkRedis` refuses.
 */
export async function openBell(options: BellOptions): Promise<Bell> {
  const target = parseQueueUrl(options.queueUrl, options.prefix);
  const ringTimeoutMs = options.ringTimeoutMs ?? defaultRingTimeoutMs;
  if (target.backend === 'none') {
    return { backend: 'none', ring: () => Promise.resolve(), close: () => Promise.resolve() };
  }
  const report = throttleErrors((error) => {
    options.onError(error);
  });
  const sender = createReopeningLink(() => openSender(target, options.checkRedis, report), reopenPauseMs);
  const isChecked = target.backend === 'redis' && options.checkRedis !== undefined;
  const openTimeoutMs = connectTimeoutMs + (isChecked ? checkTimeoutMs : 0);
  try {
    await within(sender.current(), openTimeoutMs, `connecting to ${target.backend}`);
  } catch (error) {
    if (isError(error, 'bad_configuration')) throw error;
    report(error);
  }
  const underWay = new Set<Promise<void>>();
  let closed = false;

  async function attempt(signals: readonly Signal[]): Promise<void> {
    const used: { link: SendingLink | undefined } = { link: undefined };

    async function send(): Promise<void> {
      used.link = await sender.current();
      await used.link.send(signals);
    }

    async function sendOrReopen(): Promise<void> {
      try {
        await send();
      } catch (error) {
        if (used.link === undefined) throw error;
        // Most often the connection died while idle. A new one usually works, and a duplicate signal is harmless.
        sender.replace(used.link);
        used.link = undefined;
        await send();
      }
    }

    const timeoutMs = sender.isOpen() ? ringTimeoutMs : ringTimeoutWhenAwayMs;
    try {
      await within(sendOrReopen(), timeoutMs, `ringing through ${target.backend}`);
    } catch (error) {
      if (used.link !== undefined) sender.replace(used.link);
      report(error);
    }
  }

  return {
    backend: target.backend,
    async ring(signals) {
      if (closed) return;
      const batch = coalesce(signals);
      if (batch.malformed > 0) report(new Error(`${batch.malformed} malformed signals were not sent`));
      if (batch.signals.length === 0) return;
      if (underWay.size >= maxRingsUnderWay) {
        report(new Error(`${maxRingsUnderWay} rings are under way; a further ring was dropped`));
        return;
      }
      const ringing = attempt(batch.signals);
      underWay.add(ringing);
      await ringing;
      underWay.delete(ringing);
    },
    async close() {
      closed = true;
      await settles(Promise.all(underWay), ringTimeoutMs);
      await sender.close();
    },
  };
}

async function openSender(
  target: QueueTarget,
  checkRedis: CheckRedis | undefined,
  report: Report,
): Promise<SendingLink> {
  if (target.backend === 'postgres') return openPostgresSender(target, report);
  return openRedisSender(target, connectTimeoutMs, checkRedis, report);
}
