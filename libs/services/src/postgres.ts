import pg from 'pg';
import {
  chooseServiceSource,
  dockerEngineAnswers,
  type ServiceSource,
  startPostgresContainer,
} from './docker.ts';
import { joinEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts';
import { safeReason, safeUrl } from './safe-url.ts';

export interface PostgresRequest {
  /** URL of the user's own server; empty counts as absent. */
  readonly databaseUrl?: string | undefined;
  /** Directory of an embedded server. */
  readonly dataDir: string;
  /** True when the data must survive crashes and the end of the run. */
  readonly durable: boolean;
  /** Further settings of an embedded server started here. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Allows an embedded server that another process runs on `dataDir`. Default: false. */
  readonly mayJoin?: boolean;
  /** Prefers a container to the embedded server. Default: false. */
  readonly useDocker?: boolean;
  /** Address of the Docker engine, written like DOCKER_HOST. */
  readonly dockerHost?: string | undefined;
}

export interface ProvidedPostgres {
  readonly url: string;
  readonly source: ServiceSource;
  /** Readable place of the server and the reason for its choice; without a password. */
  readonly description: string;
  /** Resolves at the end of an embedded server started here, with its exit code or signal; absent for other servers. */
  readonly ended?: Promise<string>;
  /** Stops a server that was started here, and no other. */
  readonly stop: () => Promise<void>;
}

const OLDEST_VERSION = 15;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Provides a running PostgreSQL: the user's own, else a requested and possible container, else the embedded server.
 * Throws: an error with the next step when the server cannot be used.
 */
export async function providePostgres(request: PostgresRequest): Promise<ProvidedPostgres> {
  const hasUrl = request.databaseUrl !== undefined && request.databaseUrl !== '';
  const wantsDocker = request.useDocker ?? false;
  const { source, reason } = chooseServiceSource({
    hasUrl,
    wantsDocker,
    durable: request.durable,
    engineAnswers: !hasUrl && wantsDocker && (await dockerEngineAnswers(request.dockerHost)),
  });
  switch (source) {
    case 'external': {
      const url = request.databaseUrl ?? '';
      await checkPostgres(url);
      return { url, source, description: `${safeUrl(url)} (${reason})`, stop: () => Promise.resolve() };
    }
    case 'docker': {
      const container = await startPostgresContainer();
      return { ...container, source, description: `container at ${safeUrl(container.url)} (${reason})` };
    }
    case 'embedded': {
      const running = request.mayJoin === true ? await joinEmbeddedPostgres(request.dataDir) : null;
      if (running !== null)
        return {
          url: running,
          source,
          description: `running embedded PostgreSQL, data in ${request.dataDir} (${reason})`,
          stop: () => Promise.resolve(),
        };
      const { url, ended, stop } = await startEmbeddedPostgres(request);
      return {
        url,
        source,
        ended,
        stop,
        description: `embedded PostgreSQL, data in ${request.dataDir} (${reason})`,
      };
    }
  }
}

/**
 * Checks the server at `databaseUrl`: reachable, PostgreSQL 15 or newer, UTF-8, not a read-only standby.
 * Throws: an error that names the problem and the next step, never the password.
 */
export async function checkPostgres(databaseUrl: string): Promise<void> {
  const place = safeUrl(databaseUrl);
  if (!/^postgres(ql)?:/.test(place))
    throw new Error(`DATABASE_URL must look like postgres://user:password@host:5432/database.`);
  const server = await inspect(databaseUrl).catch((error: unknown) => {
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

async function inspect(databaseUrl: string): Promise<Server | undefined> {
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

/** Explains an error of PostgreSQL or its connection, with the next step, like `checkPostgres`; null for any other error. */
export function explainPostgres(error: unknown, databaseUrl: string): string | null {
  const { code } = error as NodeJS.ErrnoException;
  const isOfPostgres = typeof code === 'string' && (code in NEXT_STEPS || /^[0-9A-Z]{5}$/.test(code));
  return isOfPostgres ? sentenceOf(error, databaseUrl) : null;
}

function sentenceOf(error: unknown, url: string): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const next = NEXT_STEPS[code ?? ''] ?? NEXT_STEPS_BY_WORDS.find(([words]) => words.test(message))?.[1];
  return `Cannot use the PostgreSQL of DATABASE_URL, ${safeUrl(url)}: ${safeReason(error, url)}. ${next ?? ''}`.trim();
}

/** The next step by Node's error code or PostgreSQL's SQLSTATE. */
const NEXT_STEPS: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    'Start that server, or correct the host and port; without DATABASE_URL `npm start` runs its own.',
  ENOTFOUND: 'No such host: correct DATABASE_URL; without it `npm start` runs its own server.',
  EAI_AGAIN: 'The host name cannot be resolved at present: check the network or DATABASE_URL.',
  ETIMEDOUT: 'No answer in time: check firewalls, host and port.',
  '28P01': 'Correct the user or the password in DATABASE_URL.',
  '28000': "Correct the user in DATABASE_URL, or allow it in the server's pg_hba.conf.",
  '3D000': 'Create that database, or name one that exists.',
  '25006': 'Point DATABASE_URL at a server that takes writes.',
  '42501': 'Grant its user the rights listed in docs/OPERATING.md.',
  '53300': 'The server has no free connection: raise its max_connections or close other connections.',
  '57P03': 'The server is starting or stopping: try again in a moment.',
};

/** The next step by message, for errors of the driver without a code. */
const NEXT_STEPS_BY_WORDS: readonly (readonly [RegExp, string | undefined])[] = [
  [/timeout/, NEXT_STEPS.ETIMEDOUT],
  [/^SASL.*password/, 'The server requires a password: set it in DATABASE_URL or in PGPASSWORD.'],
  [/does not support SSL/, 'Add sslmode=disable to the query of DATABASE_URL, or unset PGSSLMODE.'],
  [/^URI malformed/, 'Write a % in the user or the password of DATABASE_URL as %25.'],
];
