import { request } from 'node:http';

export type ServiceSource = 'external' | 'docker' | 'embedded';

export interface ServiceRequest {
  /** True when DATABASE_URL is set. */
  readonly hasUrl: boolean;
  /** True with NIGHTSHIFT_USE_DOCKER=1. */
  readonly wantsDocker: boolean;
  readonly engineAnswers: boolean;
  /** True when the data must outlive the run. */
  readonly durable: boolean;
}

export interface ServiceChoice {
  readonly source: ServiceSource;
  /** One clause for the user, also why another source was not chosen. */
  readonly reason: string;
}

/** Chooses the source of PostgreSQL. DATABASE_URL always wins; containers are for runs with disposable data. */
export function chooseServiceSource(request: ServiceRequest): ServiceChoice {
  if (request.hasUrl) return { source: 'external', reason: 'DATABASE_URL is set' };
  if (!request.wantsDocker) return { source: 'embedded', reason: 'DATABASE_URL is not set' };
  if (request.durable)
    return {
      source: 'embedded',
      reason: 'test containers are deleted with their data, which must be kept',
    };
  if (!request.engineAnswers)
    return { source: 'embedded', reason: 'NIGHTSHIFT_USE_DOCKER is set but no Docker engine answers' };
  return { source: 'docker', reason: 'NIGHTSHIFT_USE_DOCKER is set and a Docker engine answers' };
}

const DEFAULT_DOCKER_HOST = 'unix:///var/run/docker.sock';
const PING_TIMEOUT_MS = 2_000;

/** Pings the Docker engine at `dockerHost`, written like DOCKER_HOST. Never rejects. */
export async function dockerEngineAnswers(dockerHost: string = DEFAULT_DOCKER_HOST): Promise<boolean> {
  const address = engineAddress(dockerHost);
  if (address === undefined) return false;
  return new Promise((settle) => {
    const ping = request({ ...address, path: '/_ping', timeout: PING_TIMEOUT_MS }, (response) => {
      response.resume();
      settle(response.statusCode === 200);
    });
    ping.once('timeout', () => ping.destroy());
    ping.once('error', () => settle(false));
    ping.once('close', () => settle(false));
    ping.end();
  });
}

function engineAddress(
  dockerHost: string,
): { socketPath: string } | { host: string; port: string } | undefined {
  if (dockerHost.startsWith('unix://')) return { socketPath: dockerHost.slice('unix://'.length) };
  try {
    const { hostname, port } = new URL(dockerHost);
    return hostname === '' ? undefined : { host: hostname, port: port === '' ? '2375' : port };
  } catch {
    return undefined;
  }
}

export interface Container {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** Starts PostgreSQL 18 in a container, which is removed with its data by `stop()` or at the end of this process. */
export async function startPostgresContainer(): Promise<Container> {
  // Loaded on demand, because the package is large and rarely needed.
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer('postgres:18')
    .withEnvironment({ POSTGRES_PASSWORD: 'test', POSTGRES_INITDB_ARGS: '--locale=C --encoding=UTF8' })
    .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=300'])
    .withExposedPorts(5432)
    // The image starts its server twice: first for its own setup.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();
  return {
    url: `postgres://postgres:test@${container.getHost()}:${container.getMappedPort(5432)}/postgres`,
    stop: async () => {
      await container.stop();
    },
  };
}

/** Starts Redis 8 in a container, which is removed by `stop()` or at the end of this process. */
export async function startRedisContainer(): Promise<Container> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer('redis:8')
    .withExposedPorts(6379)
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
    .start();
  return {
    url: `redis://${container.getHost()}:${container.getMappedPort(6379)}`,
    stop: async () => {
      await container.stop();
    },
  };
}
