import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { settles, within } from './deadline.ts';
import type { ReceivingLink, SendingLink } from './port.ts';
import type { QueueTarget } from './queue-url.ts';
import type { Report } from './report.ts';
import { addByKind, parseSignal, queueOf, type Signal, type SignalKind } from './signal.ts';
import type { Consumer, Consumers } from './consumer.ts';

const connectTimeoutMs = 2_000;
const queryTimeoutMs = 3_000;
const probeTimeoutMs = 2_000;
const disconnectTimeoutMs = 1_000;
/** Time in which rings are gathered into one. NOTIFY takes a server-wide lock, so a process should send few. Unit: ms. */
const gatherMs = 10;
/** Payload that a listener sends to itself to check that notifications arrive. */
const PROBE = '';

/**
 * Checks that Postgres answers.
 * Throws: an error that names QUEUE_URL.
 */
export async function checkPostgresQueue(target: QueueTarget): Promise<void> {
  try {
    const { discard } = await openClient(target, () => undefined);
    await discard();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(
      `Cannot use the PostgreSQL of QUEUE_URL (by default that of DATABASE_URL): ${message || code}`,
      { cause: error },
    );
  }
}

/**
 * Connects a sender. It notifies outside any transaction and gathers the rings of {@link gatherMs} into one statement, with
 * at most one signal of each kind: every listener receives it, and finds all due rows of the kind.
 */
export async function openPostgresSender(target: QueueTarget, report: Report): Promise<SendingLink> {
  const { client, discard } = await openClient(target, report);
  const waiting = new Map<SignalKind, Signal>();
  let sending: Promise<void> | undefined;
  let underWay = Promise.resolve();

  async function sendGathered(): Promise<void> {
    await Promise.all([sleep(gatherMs), underWay.catch(() => undefined)]);
    const payloads = [...waiting.values()].map(({ kind, id }) => JSON.stringify({ kind, id }));
    waiting.clear();
    sending = undefined;
    underWay = notify(client, target, payloads);
    await underWay;
  }

  return {
    send(signals) {
      for (const signal of signals) addByKind(waiting, signal);
      return (sending ??= sendGathered());
    },
    discard,
  };
}

/**
 * Listens on one connection and passes each notification to its consumer. While the consumer is busy, work signals are held,
 * at most one of each kind. Reports when notifications do not arrive, and continues: the sweep finds the work.
 */
export async function openPostgresReceiver(
  target: QueueTarget,
  consumers: Consumers,
  idlePollMs: number,
  report: Report,
): Promise<ReceivingLink> {
  const { client, discard } = await openClient(target, report);
  const work = oneAtATime(consumers.work);
  const probe = Promise.withResolvers<void>();
  let isRunning = true;
  client.on('end', () => (isRunning = false));
  client.on('notification', ({ payload = PROBE }) => {
    const signal = parseSignal(parseJson(payload));
    if (payload === PROBE) probe.resolve();
    else if (signal !== undefined && queueOf(signal.kind) === 'work') work.take(signal);
    else consumers.control.handle(signal).catch(() => undefined);
  });
  try {
    await client.query(`listen ${client.escapeIdentifier(target.prefix)}`);
    const arrives = await probeArrives(target, probe.promise).catch(report);
    if (arrives === false)
      report(
        new Error(
          'signals do not arrive; the sweep still finds all work. A transaction pooler such as PgBouncer drops LISTEN: ' +
            'let QUEUE_URL name the server itself, a Redis or none',
        ),
      );
  } catch (error) {
    await discard();
    throw error;
  }
  const closing = new AbortController();

  async function beat(): Promise<never> {
    for (;;) {
      await sleep(idlePollMs, undefined, { signal: closing.signal });
      await client.query('select 1');
      for (const { noteProgress } of Object.values(consumers)) noteProgress();
    }
  }

  beat().catch(() => (isRunning = false));
  return {
    isRunning: () => isRunning,
    async discard(graceMs) {
      closing.abort();
      await settles(work.idle(), graceMs);
      await discard();
    },
  };
}

/** Tests that a notification of another connection arrives. A pooler may deliver one of the same connection by chance. */
async function probeArrives(target: QueueTarget, arrived: Promise<void>): Promise<boolean> {
  const other = await openClient(target, () => undefined);
  try {
    await notify(other.client, target, [PROBE]);
    return await settles(arrived, probeTimeoutMs);
  } finally {
    await other.discard();
  }
}

async function notify(client: pg.Client, target: QueueTarget, payloads: readonly string[]): Promise<void> {
  await client.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [
    target.prefix,
    payloads,
  ]);
}

/** Passes signals to a consumer one after another. */
function oneAtATime(consumer: Consumer): {
  readonly take: (signal: Signal) => void;
  readonly idle: () => Promise<void>;
} {
  const held = new Map<SignalKind, Signal>();
  let working: Promise<void> | undefined;

  async function handleHeld(): Promise<void> {
    for (const [kind, signal] of held) {
      held.delete(kind);
      // Rejects when the consumer is shut; all held signals are then dropped.
      await consumer.handle(signal).catch(() => undefined);
    }
    working = undefined;
  }

  return {
    take(signal) {
      addByKind(held, signal);
      working ??= handleHeld();
    },
    idle: () => working ?? Promise.resolve(),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface OpenClient {
  readonly client: pg.Client;
  /** Ends the connection in bounded time. Never rejects. */
  readonly discard: () => Promise<void>;
}

/** Opens one connection, without startup parameters that a pooler refuses. */
async function openClient(target: QueueTarget, report: Report): Promise<OpenClient> {
  const client = new pg.Client({
    connectionString: target.url,
    application_name: 'nightshift queue',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    query_timeout: queryTimeoutMs,
  });
  client.on('error', report);

  async function discard(): Promise<void> {
    // An unanswered goodbye leaves the socket open, which would keep the process alive.
    if (!(await settles(client.end(), disconnectTimeoutMs))) destroySocket(client);
  }

  try {
    await within(client.connect(), connectTimeoutMs, 'connecting to Postgres');
  } catch (error) {
    await discard();
    throw error;
  }
  return { client, discard };
}

function destroySocket(client: pg.Client): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}
