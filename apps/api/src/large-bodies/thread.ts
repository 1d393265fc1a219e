import { parentPort, workerData } from 'node:worker_threads';
import { connect } from '@nightshift/db';
import { createPool } from '@nightshift/services';
import { buildServer } from '../server.ts';
import { handedOver, type HandedOver } from './handed-over.ts';
import type { FromThread, ThreadAnswer, ThreadSettings, ToThread } from './protocol.ts';

/** Most connections to PostgreSQL; further requests wait. */
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
    (said) => tell({ kind: 'answer', id, answer: said }, [said.body.buffer]),
    (error: unknown) => tell({ kind: 'failed', id, error: error as Error }),
  );
});

async function answer(request: HandedOver): Promise<ThreadAnswer> {
  const { method, url, headers } = request;
  const given = { method: method as 'POST', url, headers: headers as Record<string, string> };
  const said = await handedOver.run(request, async () => app.inject(given));
  return { status: said.statusCode, headers: said.headers, body: new Uint8Array(said.rawPayload) };
}
