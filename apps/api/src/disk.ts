import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';

/** The room on the disk of a directory. */
export interface Disk {
  readonly free_bytes: number;
  readonly total_bytes: number;
  /** The data of the database lie below the directory. */
  readonly holds_database: boolean;
}

/** Measures the disk of `dataDir`; null if the system does not tell. */
export async function readDisk(dataDir: string, databaseUrl: string): Promise<Disk | null> {
  try {
    const { bavail, blocks, bsize } = await statfs(dataDir);
    return {
      free_bytes: bavail * bsize,
      total_bytes: blocks * bsize,
      holds_database: isEmbedded(dataDir, databaseUrl),
    };
  } catch {
    return null;
  }
}

/** Place of the port in the pid file of PostgreSQL. */
const PORT_LINE = 3;

/** True for the embedded server: its pid file below `dataDir` has the port of the URL. */
function isEmbedded(dataDir: string, databaseUrl: string): boolean {
  try {
    const lines = readFileSync(join(dataDir, 'pg', 'cluster', 'postmaster.pid'), 'utf8').split('\n');
    const { hostname, port } = new URL(databaseUrl);
    return hostname === '127.0.0.1' && lines[PORT_LINE]?.trim() === port;
  } catch {
    return false;
  }
}
