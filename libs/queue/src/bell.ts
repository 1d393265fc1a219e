import { isError } from '@nightshift/agent-core';
import { settles, within } from './deadline.ts';
import type { SendingLink } from './port.ts';
import { openPostgresSender } from './postgres.ts';
import { parseQueueUrl, type QueueBackendName, type QueueTarget } from './queue-url.ts';
import { checkTimeoutMs, openRedisSender, type CheckRedis } from './redis.ts';
import { createReopeningLink } from './reopening-link.ts';
import { throttleErrors, type Report } from './report.ts';
import { coalesce, type Signal } from './signal.ts';

/** The only thing a flow or a route may do to the queue, and only after its transaction has committed. */
export interface Bell {
  readonly backend: QueueBackendName;
  /**
   * Says "look again" for these rows. Never rejects and never waits longer than `ringTimeoutMs`: a signal that could not
   * be sent is lost, which costs latency only. Equal signals are sent once; very many become one `'*'` per kind.
   */
  ring(signals: readonly Signal[]): Promise<void>;
  /** Lets rings under way end, then frees all connections; takes a few seconds at most. Never rejects. */
  close(): Promise<void>;
}

export interface BellOptions {
  /** `redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`. */
  readonly queueUrl: string;
  /** Default `nightshift`. Bell and listener must agree on it. */
  readonly prefix?: string;
  /** Hears of lost signals and trouble with the backend, each kind of message at most once in ten seconds. */
  onError(error: Error): void;
  /** Says why this Redis must not be used, as one that evicts keys. Asked whenever a connection was opened. */
  readonly checkRedis?: CheckRedis | undefined;
  /** What a ring may cost its caller. Default 1,000 ms. */
  readonly ringTimeoutMs?: number;
}

const connectTimeoutMs = 2_000;
const defaultRingTimeoutMs = 1_000;
/** What a ring may cost its caller while the backend is known to be away. */
const ringTimeoutWhenAwayMs = 100;
const reopenPauseMs = 250;
const maxRingsUnderWay = 1_000;

/**
 * Opens a bell. A backend that is away is no error here, so that accepting work never depends on it: the bell reports it,
 * and is heard as soon as the backend is back. Throws on an unusable URL, and when `checkRedis` objects. Takes two seconds
 * at most, and three more while a Redis is checked.
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
        // Most often a connection that died while nobody rang. A new one usually works, and sending twice is harmless.
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
        report(new Error(`${maxRingsUnderWay} rings are under way, a further one was not sent`));
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
