import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config, Source } from '../config.ts';
import { failing, ok, warning, type Finding } from './finding.ts';
import { probePort } from './probe-port.ts';

const SOURCES: Readonly<Record<Source, string>> = {
  flag: 'the command line',
  environment: 'the environment',
  file: 'the file of nightshift config',
  'data folder': 'the data folder of npm start',
  default: 'the default',
};

/** Names the place of a setting. */
export function sourceOf(source: Source): string {
  return SOURCES[source];
}

/** Checks the parts of this machine on which an API depends, the likely causes first. */
export async function checkEnvironment(config: Config): Promise<readonly Finding[]> {
  const checks = [
    await checkAddress(config),
    checkKey(config),
    checkNode(),
    ...(await checkDataFolder(config.dataDir)),
    checkEmbeddedDatabase(config.dataDir),
    await checkDatabaseUrl(config.databaseUrl),
  ];
  return checks.filter((finding) => finding !== null);
}

const HTTPS_PORT = 443;
const HTTP_PORT = 80;

/** Checks that a program listens at the address, and whether npm start wrote another. */
async function checkAddress({ url, dataDir }: Config): Promise<Finding> {
  const { hostname, port, protocol } = new URL(url.value);
  const defaultPort = protocol === 'https:' ? HTTPS_PORT : HTTP_PORT;
  const reason = await probePort(hostname.replaceAll(/[[\]]/g, ''), Number(port) || defaultPort);
  const place = `${url.value} (from ${sourceOf(url.source)})`;
  if (reason === null) return ok('address', `A program listens at ${place}.`);
  const written = dataDir === undefined ? undefined : join(dataDir, 'api-url');
  const other =
    written === undefined || !existsSync(written) ? undefined : readFileSync(written, 'utf8').trim();
  const advice =
    other !== undefined && other !== url.value && URL.canParse(other) && (await isOpen(other))
      ? `An API of npm start listens at ${other}: unset NIGHTSHIFT_URL and --url, or set them to it.`
      : url.source === 'default' || url.source === 'data folder'
        ? 'Start the service with npm start, or set NIGHTSHIFT_URL to the address of a running API.'
        : `Correct the address in ${sourceOf(url.source)}, or start the API there.`;
  return failing('address', `${place} ${reason}.`, advice);
}

/** Returns the key that `npm start` keeps in its data folder; undefined without one. */
export function keyOfDataFolder({ dataDir }: Config): string | undefined {
  const path = dataDir === undefined ? undefined : join(dataDir, 'api-key');
  return path === undefined || !existsSync(path) ? undefined : readFileSync(path, 'utf8').trim();
}

async function isOpen(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return (await probePort(hostname, Number(port) || HTTP_PORT)) === null;
}

/** Checks that there is an API key. */
export function checkKey({ apiKey }: Config): Finding {
  if (apiKey !== undefined) return ok('key', `An API key comes from ${sourceOf(apiKey.source)}.`);
  return failing(
    'key',
    'There is no API key.',
    'Set NIGHTSHIFT_API_KEY, or run nightshift config set api_key, or run this in the folder of npm start.',
  );
}

const NODE_MAJOR = 24;

function checkNode(): Finding {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= NODE_MAJOR) return ok('node', `Node is ${node}.`);
  return failing('node', `Node is ${node}.`, 'Install Node 24.16 or newer; npm start fetches it too.');
}

const FREE_BYTES_MIN = 512_000_000;
const MB = 1_000_000;

/** Checks that the data folder can be written, and that its disk has room. */
async function checkDataFolder(dataDir: string | undefined): Promise<readonly Finding[]> {
  if (dataDir === undefined || !existsSync(dataDir))
    return [
      warning(
        'data_folder',
        dataDir === undefined
          ? 'There is no .data folder of npm start here or above.'
          : `The data folder ${dataDir} does not exist.`,
        'If the service runs on this machine, run this in its folder, or set DATA_DIR.',
      ),
    ];
  return [checkWritable(dataDir), await checkRoom(dataDir)];
}

function checkWritable(dataDir: string): Finding {
  try {
    accessSync(dataDir, constants.W_OK);
    return ok('data_folder', `${dataDir} can be written.`);
  } catch {
    return failing(
      'data_folder',
      `This user may not write to ${dataDir}.`,
      'Set DATA_DIR to a folder of this user, or run as its owner.',
    );
  }
}

async function checkRoom(dataDir: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(dataDir);
  const finding = `${Math.round((bavail * bsize) / MB)} MB are free below ${dataDir}.`;
  if (bavail * bsize >= FREE_BYTES_MIN) return ok('disk', finding);
  return failing('disk', finding, 'Free space: PostgreSQL stops when its disk is full.');
}

/** Checks whether the server of `npm start` lives; null without one. */
function checkEmbeddedDatabase(dataDir: string | undefined): Finding | null {
  if (dataDir === undefined || !existsSync(join(dataDir, 'pg', 'cluster'))) return null;
  const pidFile = join(dataDir, 'pg', 'cluster', 'postmaster.pid');
  const advice = `Start the service with npm start; ${join(dataDir, 'logs')} says why it ended.`;
  if (!existsSync(pidFile))
    return failing('embedded_database', 'The embedded PostgreSQL is stopped.', advice);
  try {
    const pid = Number(readFileSync(pidFile, 'utf8').split('\n')[0]);
    if (lives(pid)) return ok('embedded_database', `The embedded PostgreSQL runs, process ${pid}.`);
    return failing('embedded_database', 'The embedded PostgreSQL has ended without a stop.', advice);
  } catch {
    return warning('embedded_database', `${pidFile} cannot be read.`, 'Run this as the user of npm start.');
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

const POSTGRES_PORT = 5432;

/** Checks that the server of DATABASE_URL can be reached; null without the variable. */
async function checkDatabaseUrl(databaseUrl: string | undefined): Promise<Finding | null> {
  if (databaseUrl === undefined) return null;
  if (!URL.canParse(databaseUrl))
    return failing(
      'database_url',
      'DATABASE_URL is no address.',
      'Write it like postgres://user:password@host:5432/database.',
    );
  const { hostname, port } = new URL(databaseUrl);
  const place = `${hostname}:${port || POSTGRES_PORT} of DATABASE_URL`;
  const reason = await probePort(hostname, Number(port) || POSTGRES_PORT);
  if (reason === null) return ok('database_url', `A server listens at ${place}.`);
  return failing('database_url', `${place} ${reason}.`, 'Start that server, or correct DATABASE_URL.');
}
