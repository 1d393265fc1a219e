import pg from 'pg';
import {
  chooseServiceSource,
  dockerEngineAnswers,
  type ServiceSource,
  startPostgresContainer,
} from './docker.ts';
import { joinEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts';
import { safeReason, safeUrl } from './safe-url.ts';

export interface PostgresWish {
  /** A server of the user's own; empty counts as absent. */
  readonly databaseUrl?: string | undefined;
  /** Where an embedded server keeps everything it has. */
  readonly dataDir: string;
  /** Whether the data must survive crashes and the end of the run. */
  readonly durable: boolean;
  /** More settings of an embedded server that is started. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Whether an embedded server that another process runs on `dataDir` will do; default false. */
  readonly mayJoin?: boolean;
  /** Whether a container is preferred to the embedded server; default false. */
  readonly useDocker?: boolean;
  /** The Docker engine, as DOCKER_HOST is written. */
  readonly dockerHost?: string | undefined;
}

export interface ProvidedPostgres {
  readonly url: string;
  readonly source: ServiceSource;
  /** For people: where the server is and why this one; without a password. */
  readonly description: string;
  /** Of an embedded server that was started here: resolves when it ends, with how. Nobody says so of another. */
  readonly ended?: Promise<string>;
  /** Stops what was started; a server of the user's own is left alone. */
  readonly stop: () => Promise<void>;
}

const OLDEST_VERSION = 15;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Provides a PostgreSQL that answers: the user's own, else a container if one was asked for and can be had, else the
 * embedded server.
 * @throws an error that says what to do next when the user's server cannot be used.
 */
export async function providePostgres(wish: PostgresWish): Promise<ProvidedPostgres> {
  const hasUrl = wish.databaseUrl !== undefined && wish.databaseUrl !== '';
  const wantsDocker = wish.useDocker ?? false;
  const { source, reason } = chooseServiceSource({
    hasUrl,
    wantsDocker,
    durable: wish.durable,
    engineAnswers: !hasUrl && wantsDocker && (await dockerEngineAnswers(wish.dockerHost)),
  });
  switch (source) {
    case 'external': {
      const url = wish.databaseUrl ?? '';
      await checkPostgres(url);
      return { url, source, description: `${safeUrl(url)} (${reason})`, stop: () => Promise.resolve() };
    }
    case 'docker': {
      const container = await startPostgresContainer();
      return { ...container, source, description: `container at ${safeUrl(container.url)} (${reason})` };
    }
    case 'embedded': {
      const running = wish.mayJoin === true ? await joinEmbeddedPostgres(wish.dataDir) : null;
      if (running !== null)
        return {
          url: running,
          source,
          description: `running embedded PostgreSQL, data in ${wish.dataDir} (${reason})`,
          stop: () => Promise.resolve(),
        };
      const { url, ended, stop } = await startEmbeddedPostgres(wish);
      return {
        url,
        source,
        ended,
        stop,
        description: `embedded PostgreSQL, data in ${wish.dataDir} (${reason})`,
      };
    }
  }
}

/**
 * Resolves when the server at `databaseUrl` can be used: reachable, PostgreSQL 15 or newer, UTF-8, not a read-only
 * standby.
 * @throws an error that names the trouble and the next step; never the password.
 */
export async function checkPostgres(databaseUrl: string): Promise<void> {
  const place = safeUrl(databaseUrl);
  if (!/^postgres(ql)?:/.test(place))
    throw new Error(`DATABASE_URL must look like postgres://user:password@host:5432/database.`);
  const server = await lookAt(databaseUrl).catch((error: unknown) => {
    throw new Error(sentenceOf(error, databaseUrl), { cause: error });
  });
  if (server === undefined) throw new Error(`DATABASE_URL (${place}) answers, but not like PostgreSQL.`);
  if (server.version < OLDEST_VERSION)
    throw new Error(
      `${place} is PostgreSQL ${server.version}; use ${OLDEST_VERSION} or newer (18 is tested most).`,
    );
  if (server.encoding !== 'UTF8')
    throw new Error(`${place} is encoded in ${server.encoding}; create a database with encoding UTF8.`);
  if (server.standby) throw new Error(`${place} is a read-only standby; point DATABASE_URL at the primary.`);
}

interface Server {
  readonly version: number;
  readonly encoding: string;
  readonly standby: boolean;
}

async function lookAt(databaseUrl: string): Promise<Server | undefined> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<Server>(
      `select current_setting('server_version_num')::int / 10000 as version,
              current_setting('server_encoding') as encoding, pg_is_in_recovery() as standby`,
    );
    return rows[0];
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * What an error of the PostgreSQL at `databaseUrl` means and what to do next, as `checkPostgres` says it; null of an
 * error that neither the server nor the connection has a code for.
 */
export function explainPostgres(error: unknown, databaseUrl: string): string | null {
  const { code } = error as NodeJS.ErrnoException;
  const isTheirs = typeof code === 'string' && (code in NEXT_STEPS || /^[0-9A-Z]{5}$/.test(code));
  return isTheirs ? sentenceOf(error, databaseUrl) : null;
}

function sentenceOf(error: unknown, url: string): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const next = NEXT_STEPS[code ?? ''] ?? NEXT_STEPS_BY_WORDS.find(([words]) => words.test(message))?.[1];
  return `Cannot use the PostgreSQL of DATABASE_URL, ${safeUrl(url)}: ${safeReason(error, url)}. ${next ?? ''}`.trim();
}

/** By Node's error codes and PostgreSQL's SQLSTATEs. */
const NEXT_STEPS: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    'Start that server, or correct the host and port; `npm start` brings its own where DATABASE_URL is unset.',
  ENOTFOUND: 'No such host: correct DATABASE_URL; `npm start` brings its own server where that is unset.',
  EAI_AGAIN: 'The host name cannot be looked up just now: check the network or DATABASE_URL.',
  ETIMEDOUT: 'No answer in time: check firewalls, host and port.',
  '28P01': 'Correct the user or the password in DATABASE_URL.',
  '28000': "Correct the user in DATABASE_URL, or allow it in the server's pg_hba.conf.",
  '3D000': 'Create that database, or name one that exists.',
  '25006': 'Point DATABASE_URL at a server that takes writes.',
  '42501': 'Grant its user what docs/OPERATING.md lists.',
  '53300': 'The server has no connection left: raise its max_connections or end others.',
  '57P03': 'The server is starting or stopping: try again in a moment.',
};

/** For what the driver refuses without a code. */
const NEXT_STEPS_BY_WORDS: readonly (readonly [RegExp, string | undefined])[] = [
  [/timeout/, NEXT_STEPS.ETIMEDOUT],
  [/^SASL.*password/, 'The server wants a password: put one in DATABASE_URL, or in PGPASSWORD.'],
  [/does not support SSL/, 'Add sslmode=disable to the query of DATABASE_URL, or unset PGSSLMODE.'],
  [/^URI malformed/, 'Write a % in the user or the password of DATABASE_URL as %25.'],
];
