import { openPostgresReceiver } from './postgres.ts';
import { parseQueueUrl } from './queue-url.ts';
import { openRedisReceiver, type CheckRedis } from './redis.ts';
import { throttleErrors, type Report } from './report.ts';
import { parseSignal, type Signal } from './signal.ts';
import { createConsumer } from './consumer.ts';
import { startWatch } from './watch.ts';

export interface Listener {
  /** Stops taking signals, waits up to `closeTimeoutMs` for work handlers, closes all connections. Never rejects. */
  close(): Promise<void>;
  /** True when both queues have answered recently. Always true for `none`. */
  isAlive(): boolean;
  /** Number of malformed payloads that were dropped. */
  readonly droppedSignals: number;
}

export interface ListenOptions {
  /** `redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`. */
  readonly queueUrl: string;
  /** Prefix of queue names, the same for bell and listener. Default: `nightshift`. */
  readonly prefix?: string;
  /** Handles a control signal. It is not awaited, and should return quickly. */
  onControl(signal: Signal): void | Promise<void>;
  /**
   * Handles a work signal. It is awaited: meanwhile this process takes no other work signal. On Redis further signals go to
   * other processes; on Postgres every process receives them, and handles them when it is free, once for each kind.
   */
  onWork(signal: Signal): Promise<void>;
  /** Called after each reconnect, since signals may have been lost. */
  onReopened?(): void;
  /** Receives errors of the handlers and the backend, each kind of message at most once in ten seconds. */
  onError(error: Error): void;
  /** Checks each opened Redis and may refuse it, for example because it evicts keys. */
  readonly checkRedis?: CheckRedis | undefined;
  /** Maximum wait of `close()` for work handlers. Default: 5,000 ms. */
  readonly closeTimeoutMs?: number;
  /** Poll interval of an idle worker, also its heartbeat. Default: 5,000 ms. */
  readonly idlePollMs?: number;
  /** Age of the last answer at which a connection is replaced; must exceed `idlePollMs`. Default: 20,000 ms. */
  readonly silentAfterMs?: number;
}

/**
 * Listens to both queues, and reconnects when the backend is away or silent, also at the start.
 *
 * An error of a handler is reported, and its signal counts as handled: the row stays due.
 * Throws: for an unusable URL, a bad option, or when `checkRedis` refuses.
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
