import { openPostgresReceiver } from './postgres.ts';
import { parseQueueUrl } from './queue-url.ts';
import { openRedisReceiver, type CheckRedis } from './redis.ts';
import { throttleErrors, type Report } from './report.ts';
import { parseSignal, type Signal } from './signal.ts';
import { createConsumer } from './consumer.ts';
import { startWatch } from './watch.ts';

export interface Listener {
  /** Takes no more signals, waits for work handlers up to `closeTimeoutMs`, frees all connections. Never rejects. */
  close(): Promise<void>;
  /** Whether both queues' workers lately proved that they ask for signals. Always true for `none`, which never asks. */
  isAlive(): boolean;
  /** How many payloads were thrown away because they were no signals. */
  readonly droppedSignals: number;
}

export interface ListenOptions {
  /** `redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`. */
  readonly queueUrl: string;
  /** Default `nightshift`. Bell and listener must agree on it. */
  readonly prefix?: string;
  /** Hears of every control signal and is not waited for: it should note what to look at and return. */
  onControl(signal: Signal): void | Promise<void>;
  /**
   * Is waited for: meanwhile this process takes no other signal. On Redis that signal goes to another process; on
   * Postgres every process hears it, and looks when it is free, once for all signals of a kind.
   */
  onWork(signal: Signal): Promise<void>;
  /** Hears that signals may have been lost: the listener was away and listens again. */
  onReopened?(): void;
  /** Hears of errors of the handlers and the backend, each kind of message at most once in ten seconds. */
  onError(error: Error): void;
  /** Says why this Redis must not be used, as one that evicts keys. Asked whenever workers are started. */
  readonly checkRedis?: CheckRedis | undefined;
  /** How long `close()` waits for work handlers. Default 5,000 ms. */
  readonly closeTimeoutMs?: number;
  /** How long an idle worker waits before it asks again unrung; also its pulse. Default 5,000 ms. */
  readonly idlePollMs?: number;
  /** Workers whose pulse is older than this are replaced. Default 20,000 ms; must exceed `idlePollMs`. */
  readonly silentAfterMs?: number;
}

/**
 * Listens to both kinds of signals and keeps listening: when the backend goes away, or falls silent, its connections are
 * thrown away and opened again. A backend that is away at the start, or goes while it is checked, is reported and waited
 * for; only an unusable URL, a bad option or an objection of `checkRedis` throws. What a handler throws is reported and the
 * signal is done with, since the row it was about stays due.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  const target = parseQueueUrl(options.queueUrl, options.prefix);
  const settings = settingsOf(options);
  if (target.backend === 'none') {
    return {
      close: () => Promise.resolve(),
      isAlive: () => true,
      droppedSignals: 0,
    };
  }

  const report = throttleErrors((error) => {
    options.onError(error);
  });
  let droppedSignals = 0;

  function receive(payload: unknown): Signal | undefined {
    const signal = parseSignal(payload);
    if (signal === undefined) droppedSignals += 1;
    return signal;
  }

  const control = createConsumer('control', (payload) => {
    const signal = receive(payload);
    if (signal !== undefined) void reporting(async () => options.onControl(signal), report);
    return Promise.resolve();
  });
  const work = createConsumer('work', async (payload) => {
    const signal = receive(payload);
    if (signal !== undefined) await reporting(() => options.onWork(signal), report);
  });
  const consumers = { control, work };
  const { idlePollMs } = settings;
  const watch = await startWatch({
    open: () =>
      target.backend === 'postgres'
        ? openPostgresReceiver(target, consumers, idlePollMs, report)
        : openRedisReceiver(target, consumers, idlePollMs, options.checkRedis, report),
    onReopened: () => options.onReopened?.(),
    consumers: Object.values(consumers),
    timings: settings,
    report,
  });

  return {
    close: watch.close,
    isAlive: watch.isAlive,
    get droppedSignals() {
      return droppedSignals;
    },
  };
}

interface Settings {
  readonly closeTimeoutMs: number;
  readonly idlePollMs: number;
  readonly silentAfterMs: number;
}

function settingsOf(options: ListenOptions): Settings {
  const { closeTimeoutMs = 5_000, idlePollMs = 5_000, silentAfterMs = 20_000 } = options;
  if (!(idlePollMs >= 100 && idlePollMs <= 10_000)) {
    throw new Error(`idlePollMs is ${idlePollMs}: give a number from 100 to 10000`);
  }
  if (!(silentAfterMs > idlePollMs)) {
    throw new Error(`silentAfterMs is ${silentAfterMs}: give more than idlePollMs, which is ${idlePollMs}`);
  }
  if (!(closeTimeoutMs >= 0)) throw new Error(`closeTimeoutMs is ${closeTimeoutMs}: give 0 or more`);
  return { closeTimeoutMs, idlePollMs, silentAfterMs };
}

async function reporting(handle: () => Promise<void>, report: Report): Promise<void> {
  try {
    await handle();
  } catch (error) {
    report(error);
  }
}
