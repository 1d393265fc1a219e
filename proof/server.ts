import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryOwner, startEmbeddedPostgres } from '../libs/services/src/index.ts';
import { SERVER_SETTINGS } from './database.ts';

/** A PostgreSQL for simulations, with its data under `.data/`. */
export interface ProofServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a server without durability, for speed. Its data is removed at the stop. */
export async function startProofServer(): Promise<ProofServer> {
  const home = join(import.meta.dirname, '..', '.data');
  await mkdir(home, { recursive: true });
  removeStale(home);
  const dataDir = mkdtempSync(join(home, 'proof-'));
  const postgres = await startEmbeddedPostgres({
    dataDir,
    durable: false,
    settings: { ...SERVER_SETTINGS, unix_socket_directories: '.' },
  });
  const socketDir = join(dataDir, 'cluster');
  return {
    // A round trip over a file system socket is shorter than one over the network.
    url: canHold(socketDir) ? `${postgres.url}&host=${encodeURIComponent(socketDir)}` : postgres.url,
    async stop() {
      await postgres.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Age in milliseconds at which an unlocked directory is stale. */
const STALE_MS = 60_000;

/** Removes the directories of killed proofs. */
function removeStale(home: string): void {
  for (const name of readdirSync(home)) {
    const directory = join(home, name);
    if (!name.startsWith('proof-')) continue;
    const { mtimeMs = Date.now() } = statSync(directory, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs < STALE_MS || directoryOwner(directory) !== null) continue;
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A socket's path must fit into 107 bytes. */
function canHold(socketDir: string): boolean {
  return process.platform !== 'win32' && Buffer.byteLength(socketDir) + '/.s.PGSQL.65535'.length <= 107;
}
