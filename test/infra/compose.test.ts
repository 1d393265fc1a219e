import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { VARIABLES as API_VARIABLES, readConfig as readApiConfig } from '../../apps/api/src/config.ts';
import { readConfig as readSimulatorConfig } from '../../apps/simulator/src/config.ts';
import {
  VARIABLES as WORKER_VARIABLES,
  readConfig as readWorkerConfig,
} from '../../apps/worker/src/config.ts';
import { durationMs, environmentOfService, parseCompose, type ComposeService } from './compose.ts';
import { environmentOf, lastOf, parseDockerfile } from './dockerfile.ts';
import { read, root, variablesReadBy } from './repository.ts';

const text = read('docker-compose.yml');
const { services, volumes } = parseCompose(text);
const serviceNames = Object.keys(services);
const built = Object.entries(services).filter(([, { build }]) => build !== undefined);

/** Variables of third-party images. */
const VARIABLES_OF_IMAGES: Readonly<Record<string, readonly string[]>> = {
  postgres: ['POSTGRES_USER', 'POSTGRES_DB', 'POSTGRES_PASSWORD'],
  redis: ['REDISCLI_AUTH'],
};
/** The config file of each of our services. */
const SOURCE_OF_SERVICE: Readonly<Record<string, string>> = {
  api: 'apps/api/src/config.ts',
  worker: 'apps/worker/src/config.ts',
  simulator: 'apps/simulator/src/config.ts',
  migrate: 'scripts/migrate.ts',
};

/** Variables that are deliberately not in the file. */
const LEFT_OUT: Readonly<Record<'api' | 'worker', readonly string[]>> = {
  // The first needs a mounted file; the second an open standard input.
  api: ['PRICES_FILE', 'EXIT_WITH_PARENT'],
  worker: [
    'PRICES_FILE',
    'EXIT_WITH_PARENT',
    // A container's host name distinguishes it.
    'WORKER_NAME',
    // Times and sizes with fitting defaults.
    'LEASE_MS',
    'SWEEP_INTERVAL_MS',
    'HUNT_INTERVAL_MS',
    'CREATE_TIMEOUT_MS',
    'RESULTS_IDLE_TIMEOUT_MS',
    'RESULTS_BYTES_PER_SECOND_MIN',
    'RESULTS_RATE_WINDOW_MS',
    'INGEST_LANES',
    'MISSING_GRACE_MS',
    'QUARANTINE_MS',
    'SEARCH_INTERVAL_MS',
    'RETRY_DELAY_MS',
    'OUTAGE_DELAY_MS',
    'OUTAGE_MAX_MS',
    'AUDIT_INTERVAL_MS',
    'QUICK_CALLS_MS',
    'DATABASE_POOL_MAX',
  ],
};

function finalStageOf({ build }: ComposeService): ReturnType<typeof parseDockerfile>[number] {
  return parseDockerfile(read(build!.dockerfile)).at(-1)!;
}

/** Returns the environment in a container: of its image, then of the file. */
function environmentInside(name: string, variables: Record<string, string> = {}): Record<string, string> {
  const service = services[name]!;
  return { ...environmentOf(finalStageOf(service)), ...environmentOfService(service, variables) };
}

test('the file holds the whole service', () => {
  expect(serviceNames.sort()).toEqual(['api', 'migrate', 'postgres', 'redis', 'simulator', 'worker']);
});

test('every key is known: a typo is refused', () => {
  for (const [right, wrong] of [
    ['stop_grace_period:', 'stop_grace_periode:'],
    ['condition: service_healthy', 'condition: healthy'],
    ['interval: 2s', 'interval: 2'],
    ['postgres: { condition', 'postgress: { condition'],
    ["volumes: ['postgres:/var", "volumes: ['pg:/var"],
    ['init: true', 'init: perhaps'],
  ] as const) {
    expect(text).toContain(right);
    expect(() => parseCompose(text.replace(right, wrong))).toThrow();
  }
});

test.each(serviceNames)('%s gets only variables that it reads', (name) => {
  const source = SOURCE_OF_SERVICE[name];
  const known = source === undefined ? VARIABLES_OF_IMAGES[name] : [...variablesReadBy(source)];
  const unknown = Object.keys(services[name]!.environment ?? {}).filter((key) => !known?.includes(key));
  expect(unknown).toEqual([]);
});

test.each([
  ['api', API_VARIABLES],
  ['worker', WORKER_VARIABLES],
] as const)('every variable of the %s is passed on or deliberately left out', (name, known) => {
  const passed = {
    ...environmentOf(finalStageOf(services[name]!)),
    ...services[name]!.environment,
  };
  const missing = known.filter((variable) => !(variable in passed));
  expect(missing.sort()).toEqual([...LEFT_OUT[name]].sort());
});

describe('without settings', () => {
  test('the worker has all it needs, and uses the simulator', () => {
    const config = readWorkerConfig(environmentInside('worker'));
    expect(config.provider).toEqual({ apiKey: 'simulated', baseURL: 'http://simulator:8290' });
    expect(config.simulated).toBe(true);
    expect(config.database_url).toBe('postgres://nightshift:dev-only-password@postgres:5432/nightshift');
    expect(config.queue_url).toBe('redis://:dev-only-password@redis:6379');
    expect(config.tools_dirs).toEqual(['/tools']);
  });

  test('the API has all it needs, and shows a simulated model', () => {
    const { host, port, apiKey, model } = readApiConfig(environmentInside('api'));
    expect({ host, port, apiKey, model }).toEqual({
      host: '0.0.0.0',
      port: 8283,
      apiKey: 'dev-only-api-key',
      model: 'simulator',
    });
  });

  test('the simulator listens at the address of the worker', () => {
    const { host, apiPort, dataDir } = readSimulatorConfig(environmentInside('simulator'));
    expect({ host, apiPort, dataDir }).toEqual({ host: '0.0.0.0', apiPort: 8290, dataDir: '/data' });
  });

  test('every default secret says that it is for development', () => {
    const defaults = [...text.matchAll(/\$\{[A-Z_]*(?:PASSWORD|_KEY):-([^}]*)\}/g)].map(([, value]) => value);
    expect(defaults.length).toBeGreaterThan(0);
    expect(defaults.filter((value) => !/^(dev-only-|simulated$)/.test(value ?? ''))).toEqual([]);
  });
});

test('with a key and an address the worker uses the real provider, and each store gets the set password', () => {
  const variables = {
    ANTHROPIC_API_KEY: 'sk-ant-x',
    ANTHROPIC_BASE_URL: 'https://api.anthropic.com',
    POSTGRES_PASSWORD: 'one',
    REDIS_PASSWORD: 'two',
    POLL_INTERVAL_MS: '500',
    CHUNK_LINES: '5000',
    TOOL_THREADS: '8',
    TOOL_THREAD_MEMORY_MB: '512',
    CALLBACK_SECRET: `whsec_${'a'.repeat(32)}`,
    CALLBACK_ALLOW_PRIVATE: '1',
    SECRETS_KEY: '00'.repeat(32),
    WORKSPACE_SHARED: '0',
  };
  const config = readWorkerConfig(environmentInside('worker', variables));
  expect(config.provider).toEqual({ apiKey: 'sk-ant-x', baseURL: 'https://api.anthropic.com' });
  expect(readApiConfig(environmentInside('api', variables)).model).toBe('anthropic');
  expect(JSON.stringify(environmentInside('api', variables))).not.toContain('sk-ant-x');
  expect(config.settings.poll.poll_interval_ms).toBe(500);
  expect(config.settings.chunk_lines).toBe(5_000);
  expect(config.tool_threads).toBe(8);
  expect(config.tool_thread_memory_mb).toBe(512);
  expect(config.callbacks).toMatchObject({ secret: variables.CALLBACK_SECRET, allow_private: true });
  for (const keys of [config.secrets_keys, readApiConfig(environmentInside('api', variables)).secretsKeys])
    expect(keys.current?.id).toBe('66687aadf862bd77');
  expect(config.settings.workspace_is_ours).toBe(true);
  expect(new URL(config.database_url).password).toBe('one');
  expect(new URL(config.queue_url).password).toBe('two');
  expect(environmentOfService(services.postgres!, variables).POSTGRES_PASSWORD).toBe('one');
  expect(environmentOfService(services.redis!, variables).REDISCLI_AUTH).toBe('two');
});

test('a documented command for the simulated model gets it, even beside a file with key and address', () => {
  const told = [text, read('README.md'), read('docs/OPERATING.md')].flatMap((page) =>
    page.split('\n').filter((line) => /docker compose .*--profile simulated/.test(line)),
  );
  expect(told.length).toBeGreaterThan(2);
  for (const line of told) expect(line).toMatch(/^[# ]*ANTHROPIC_BASE_URL= docker compose /);
  // In Compose the shell's environment overrides .env, even with an empty value.
  const variables = { ANTHROPIC_API_KEY: 'sk-ant-x', ANTHROPIC_BASE_URL: '' };
  const config = readWorkerConfig(environmentInside('worker', variables));
  expect(config.provider.baseURL).toBe('http://simulator:8290');
  expect(config.simulated).toBe(true);
  expect(readApiConfig(environmentInside('api', variables)).model).toBe('simulator');
});

describe('services', () => {
  test('any number of workers may run', () => {
    const { container_name, ports } = services.worker!;
    expect({ container_name, ports }).toEqual({ container_name: undefined, ports: undefined });
  });

  test('a worker has longer to stop than it needs', () => {
    const deadline = /STOP_DEADLINE_MS = ([\d_]+)/.exec(read('apps/worker/src/main.ts'))?.[1];
    const deadlineMs = Number(deadline?.replaceAll('_', ''));
    expect(deadlineMs).toBeGreaterThan(0);
    expect(durationMs(services.worker!.stop_grace_period!)).toBeGreaterThan(deadlineMs);
  });

  test('Postgres is 18 and keeps its data', () => {
    const { image, volumes: mounts } = services.postgres!;
    expect(image).toBe('postgres:18');
    expect(mounts).toEqual(['postgres:/var/lib/postgresql']);
    expect(volumes).toHaveProperty('postgres');
  });

  test('Redis is 8, persists its data and evicts nothing', () => {
    const { image, command, volumes: mounts } = services.redis!;
    expect(image).toBe('redis:8');
    expect(command?.join(' ')).toContain('--appendonly yes');
    expect(command?.join(' ')).toContain('--maxmemory-policy noeviction');
    expect(mounts).toEqual(['redis:/data']);
  });

  test('the API and the workers wait for the migrations, which wait for the stores', () => {
    for (const name of ['api', 'worker']) {
      expect(services[name]!.depends_on?.migrate?.condition).toBe('service_completed_successfully');
    }
    for (const name of ['postgres', 'redis']) {
      expect(services.migrate!.depends_on?.[name]?.condition).toBe('service_healthy');
    }
    expect(services.migrate!.restart).toBe('no');
  });

  test('the simulator starts only on request, and no other service depends on it', () => {
    expect(services.simulator!.profiles).toEqual(['simulated']);
    expect(services.worker!.depends_on?.simulator?.required).toBe(false);
    expect(Object.entries(services).filter(([, { profiles }]) => profiles !== undefined)).toHaveLength(1);
  });

  test('an awaited service reports its health', () => {
    for (const { depends_on } of Object.values(services)) {
      for (const [name, { condition }] of Object.entries(depends_on ?? {})) {
        if (condition !== 'service_healthy') continue;
        const other = services[name]!;
        const tells = other.healthcheck ?? (other.build && lastOf(finalStageOf(other), 'HEALTHCHECK'));
        expect({ name, tells: tells !== undefined }).toEqual({ name, tells: true });
      }
    }
  });

  test('only the API is reachable, and only from the machine', () => {
    const ports = Object.entries(services).flatMap(([name, service]) =>
      (service.ports ?? []).map((port) => [name, port]),
    );
    expect(ports).toEqual([['api', '127.0.0.1:${API_PORT:-8283}:8283']]);
  });

  test.each(built)('%s runs confined: no capability, and only its data folder is writable', (_, service) => {
    expect(service).toMatchObject({ init: true, read_only: true, cap_drop: ['ALL'] });
    expect(existsSync(join(root, service.build!.dockerfile))).toBe(true);
    const { DATA_DIR, SIMULATOR_DATA_DIR } = environmentOf(finalStageOf(service));
    expect(lastOf(finalStageOf(service), 'VOLUME')?.rest).toBe(DATA_DIR ?? SIMULATOR_DATA_DIR);
  });

  test('mounted folders of the machine exist', () => {
    const mounted = Object.values(services)
      .flatMap((service) => service.volumes ?? [])
      .flatMap(
        (mount) => /:-(\.\/[^}]+)\}/.exec(mount)?.[1] ?? (mount.startsWith('./') ? mount.split(':')[0]! : []),
      );
    expect(mounted.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});

test('Docker Compose itself reads the file', (context) => {
  const { status: has } = spawnSync('docker', ['compose', 'version'], { timeout: 10_000 });
  if (has !== 0) context.skip('Docker Compose is not installed here');
  const { status, stderr } = spawnSync('docker', ['compose', '--profile', 'simulated', 'config', '--quiet'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
