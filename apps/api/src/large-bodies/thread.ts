import { Readable } from 'node:stream';
import { parentPort, workerData } from 'node:worker_threads';
import { connect } from '@nightshift/db';
import { createPool } from '@nightshift/services';
import { buildServer } from '../server.ts';
import { handedOver, type ArrivedRequest, type HandedOver } from './handed-over.ts';
import type { FromThread, ThreadAnswer, ThreadSettings, ToThread } from './protocol.ts';

/** Most connections to PostgreSQL; further requests wait. */
const CONNECTIONS_MAX = 10;
/** Bytes of an upload that wait for the thread. */
const UPLOAD_BYTES_AHEAD = 262_144;

const { databaseUrl, ...settings } = workerData as ThreadSettings;
const tell = (message: FromThread, transfer: ArrayBuffer[] = []): void =>
  parentPort?.postMessage(message, transfer);

const pool = createPool({ url: databaseUrl, applicationName: 'nightshift-api-large', max: CONNECTIONS_MAX });
const app = buildServer({
  ...settings,
  db: connect(pool),
  bell: { ring: async (signals) => tell({ kind: 'ring', signals }) },
  logger: { level: 'warn', stream: { write: (line: string) => tell({ kind: 'log', line }) } },
});

/** Uploads whose parts are still arriving. */
const uploads = new Map<number, Readable>();

parentPort?.on('message', (message: ToThread) => {
  const { id } = message;
  if (message.kind === 'part') uploads.get(id)?.push(message.part);
  else if (message.kind === 'cut') uploads.get(id)?.destroy(message.error);
  else
    answer(toArrived(id, message.request))
      .then(
        (said) => tell({ kind: 'answer', id, answer: said }, [said.body.buffer]),
        (error: unknown) => tell({ kind: 'failed', id, error: error as Error }),
      )
      .finally(() => uploads.delete(id));
});

/** Opens the upload of a request, which asks for a part whenever it has room. */
function toArrived(id: number, request: HandedOver): ArrivedRequest {
  if (request.is_upload !== true) return request;
  const lines = new Readable({ read: () => tell({ kind: 'next', id }), highWaterMark: UPLOAD_BYTES_AHEAD });
  // Without a listener, the cut of an upload that is already refused would end the thread.
  lines.on('error', () => undefined);
  uploads.set(id, lines);
  return { ...request, lines };
}

async function answer(request: ArrivedRequest): Promise<ThreadAnswer> {
  const { method, url, headers } = request;
  const given = { method: method as 'POST', url, headers: headers as Record<string, string> };
  const said = await handedOver.run(request, async () => app.inject(given));
  return { status: said.statusCode, headers: said.headers, body: new Uint8Array(said.rawPayload) };
}
