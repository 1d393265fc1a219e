import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendResults } from '../results/send-results.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './reply.ts';

/** Waits in real time, and ends early when the client disconnects. */
async function pause(exchange: Exchange, ms: number): Promise<void> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  exchange.response.once('close', stop);
  await sleep(ms, undefined, { signal: controller.signal }).catch(() => undefined);
  exchange.response.off('close', stop);
}

async function sendBody(exchange: Exchange, reply: Reply, headers: Record<string, string>): Promise<void> {
  const { response, entry } = exchange;
  const { delivery } = reply;
  const body = Buffer.from(reply.body);
  response.writeHead(reply.status, { ...headers, ...reply.headers, 'content-length': String(body.length) });
  if (delivery?.body_after_ms !== undefined) {
    response.flushHeaders();
    await pause(exchange, delivery.body_after_ms);
  }
  if (delivery?.cut_after_bytes !== undefined && delivery.cut_after_bytes < body.length) {
    const part = body.subarray(0, delivery.cut_after_bytes);
    await new Promise((resolve) => response.write(part, resolve));
    response.socket?.end();
    entry.outcome = 'cut';
    entry.response_bytes = part.length;
    return;
  }
  const { socket } = response;
  response.end(body);
  entry.response_bytes = body.length;
  entry.outcome = 'answered';
  const closeAfterMs = delivery?.close_after_ms;
  if (closeAfterMs === undefined) return;
  await once(response, 'finish').catch(() => undefined);
  setTimeout(() => socket?.destroy(), closeAfterMs).unref();
}

/** Sends a reply by its delivery options and records the result in the journal. Never throws. */
export async function deliver(
  exchange: Exchange,
  reply: Reply,
  headers: Record<string, string>,
): Promise<void> {
  const { response, entry } = exchange;
  const { delivery } = reply;
  if (delivery?.instead === 'drop') {
    entry.outcome = 'dropped';
    response.socket?.destroy();
    return;
  }
  if (delivery?.instead === 'hang') {
    entry.outcome = 'hung';
    if (!response.destroyed) await once(response, 'close').catch(() => undefined);
    return;
  }
  if (delivery?.headers_after_ms !== undefined) await pause(exchange, delivery.headers_after_ms);
  if (response.destroyed) {
    entry.outcome = 'client_aborted';
    return;
  }
  entry.status = reply.status;
  entry.error_type = reply.error_type ?? null;
  if (reply.results === undefined) return sendBody(exchange, reply, headers);
  const report = await sendResults(response, reply.results, { ...headers, ...reply.headers });
  entry.outcome = report.outcome;
  entry.response_bytes = report.bytes;
}
