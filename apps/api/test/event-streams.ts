import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { API_KEY } from './api.ts';

/** An event as received. */
export interface ReceivedEvent {
  readonly id: string;
  readonly event: string;
  // Parsed JSON; the expectation is the check.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly data: any;
}

/** An open stream of events. */
export interface TestStream {
  readonly status: number;
  readonly response: IncomingMessage;
  /** Returns the next event; null after the end. */
  next(): Promise<ReceivedEvent | null>;
  /** Breaks the connection. */
  cut(): void;
}

/** Makes a server listen on a free port and returns its address. */
export async function listenOnFreePort(app: Pick<FastifyInstance, 'listen' | 'server'>): Promise<string> {
  await app.listen({ host: '127.0.0.1', port: 0 });
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}

/** Opens a stream over a real connection of its own. */
export async function openStream(url: string, lastEventId: string | null = null): Promise<TestStream> {
  const sent = request(url, {
    agent: false,
    headers: {
      authorization: `Bearer ${API_KEY}`,
      ...(lastEventId === null ? {} : { 'last-event-id': lastEventId }),
    },
  });
  sent.on('error', () => undefined).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.on('error', () => undefined).setEncoding('utf8');
  const events = readEvents(response);
  return {
    status: response.statusCode ?? 0,
    response,
    next: async () => (await events.next()).value ?? null,
    cut: () => sent.destroy(),
  };
}

async function* readEvents(response: IncomingMessage): AsyncGenerator<ReceivedEvent, undefined> {
  let text = '';
  try {
    for await (const part of response) {
      text += String(part);
      const frames = text.split('\n\n');
      text = frames.pop() ?? '';
      for (const frame of frames) {
        const fields = new Map(frame.split('\n').map((line) => splitOnce(line)));
        const [id, event, data] = ['id', 'event', 'data'].map((name) => fields.get(name));
        if (id !== undefined && event !== undefined) yield { id, event, data: JSON.parse(data ?? 'null') };
      }
    }
  } catch {
    // The connection was cut.
  }
  return undefined;
}

function splitOnce(line: string): [string, string] {
  const colon = line.indexOf(': ');
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 2)];
}
