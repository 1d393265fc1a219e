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
const hearTimeoutMs = 2_000;
const goodbyeMs = 1_000;
/** How long a ring waits for others. A NOTIFY takes a lock of the whole server, so a process sends few. */
const gatherMs = 10;
/** The payload that a listener has sent to itself, to learn whether it hears. */
const PROBE = '';

/** Rejects when Postgres does not answer. */
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
 * Connects a sender. It notifies outside any transaction and gathers the rings of a few milliseconds into one statement,
 * with at most one signal of each kind: every listener hears it, and a look finds all due rows of the kind.
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
 * Listens on one connection and hands each notification to its consumer. Work that arrives while it is busy is held, at
 * most one signal of each kind. Says so where notifications are not heard, and goes on: the sweep finds the work.
 */
export async function openPostgresReceiver(
  target: QueueTarget,
  consumers: Consumers,
  idlePollMs: number,
  report: Report,
): Promise<ReceivingLink> {
  const { client, discard } = await openClient(target, report);
  const work = inTurn(consumers.work);
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
    const hears = await hearsItself(target, probe.promise).catch(report);
    if (hears === false)
      report(
        new Error(
          'signals are not heard; the sweep finds work. A transaction pooler such as PgBouncer drops LISTEN: ' +
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

/** Whether a notification that another connection sends is heard. A pooler would deliver one of our own by chance. */
async function hearsItself(target: QueueTarget, heard: Promise<void>): Promise<boolean> {
  const other = await openClient(target, () => undefined);
  try {
    await notify(other.client, target, [PROBE]);
    return await settles(heard, hearTimeoutMs);
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

/** Hands signals to a consumer one after the other. */
function inTurn(consumer: Consumer): {
  readonly take: (signal: Signal) => void;
  readonly idle: () => Promise<void>;
} {
  const held = new Map<SignalKind, Signal>();
  let working: Promise<void> | undefined;

  async function workOff(): Promise<void> {
    for (const [kind, signal] of held) {
      held.delete(kind);
      // Rejects when the consumer is shut: signals that are held are then turned away as well.
      await consumer.handle(signal).catch(() => undefined);
    }
    working = undefined;
  }

  return {
    take(signal) {
      addByKind(held, signal);
      working ??= workOff();
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

/** One connection, without a setting that a pooler would refuse at the start of a session. */
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
    // A server that does not answer our goodbye leaves the socket open, which would keep the process alive.
    if (!(await settles(client.end(), goodbyeMs))) destroySocket(client);
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
