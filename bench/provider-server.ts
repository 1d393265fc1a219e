/**
 * The bench's provider as a server of its own, in the shape of the batches API: what the product's own provider client
 * speaks with. Started with a directory and a scenario; tells its port over IPC.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RemoteBatch } from '../apps/worker/src/provider/port.ts';
import { openProvider } from './provider.ts';
import type { Scenario } from './workload.ts';

const [dir = '', scenario = 'module'] = process.argv.slice(2);
const provider = openProvider({ dir, scenario: scenario as Scenario });

function toWire(batch: RemoteBatch): object {
  return {
    id: batch.provider_id,
    type: 'message_batch',
    processing_status: batch.processing_status,
    request_counts: batch.counts,
    created_at: batch.created_at.toISOString(),
    expires_at: batch.expires_at?.toISOString() ?? null,
    ended_at: batch.ended_at?.toISOString() ?? null,
    cancel_initiated_at: null,
    archived_at: null,
    results_url: batch.has_results
      ? `http://127.0.0.1/v1/messages/batches/${batch.provider_id}/results`
      : null,
  };
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://127.0.0.1');
  const [, id, results] = /^\/v1\/messages\/batches(?:\/([^/]+))?(\/results)?$/.exec(pathname) ?? [];
  if (request.method === 'POST' && id === undefined) {
    const made = await provider.createFrom(request);
    const found = await provider.retrieveBatch(made);
    answer(response, 200, found.outcome === 'found' ? toWire(found.batch) : {});
  } else if (id === undefined) {
    const { batches } = await provider.listBatches({ createdAfter: new Date(0) });
    const data = batches.map(toWire);
    answer(response, 200, { data, has_more: false, first_id: null, last_id: null });
  } else if (results !== undefined) {
    response.writeHead(200, { 'content-type': 'application/x-jsonl' });
    for await (const chunk of provider.results(id)) {
      if (!response.write(chunk)) await new Promise((resolve) => response.once('drain', resolve));
    }
    response.end();
  } else {
    const found = await provider.retrieveBatch(id);
    if (found.outcome === 'found') answer(response, 200, toWire(found.batch));
    else
      answer(response, 404, { type: 'error', error: { type: 'not_found_error', message: 'no such batch' } });
  }
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: unknown) => response.destroy(error as Error));
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit(0));
