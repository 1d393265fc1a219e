import { parentPort, workerData } from 'node:worker_threads';
import { connect } from '@nightshift/db';
import { createPool } from '@nightshift/services';
import { buildServer } from '../server.ts';
import { handedOver, type HandedOver } from './handed-over.ts';
import type { FromThread, ThreadSettings, ToThread } from './protocol.ts';

/** Connections to Postgres; requests beyond wait for one. */
const CONNECTIONS_MAX = 10;

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

parentPort?.on('message', ({ id, request }: ToThread) => {
  answer(request).then(
    ({ body, ...rest }) => tell({ kind: 'answer', id, answer: { ...rest, body } }, [body.buffer]),
    (error: unknown) => tell({ kind: 'failed', id, error: error as Error }),
  );
});

async function answer(request: HandedOver) {
  return handedOver.run({ ...request }, async () => {
    const { method, url, headers } = request;
    const {
      statusCode,
      headers: said,
      rawPayload,
    } = await app.inject({
      method: method as 'POST',
      url,
      headers: headers as Record<string, string>,
    });
    return { status: statusCode, headers: said, body: new Uint8Array(rawPayload) };
  });
}
