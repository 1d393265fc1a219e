import { hostname } from 'node:os';
import { delimiter, join } from 'node:path';
import { isError, SHIPPED_PRICES } from '@nightshift/agent-core';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { readConfig, VARIABLES } from '../../src/config.ts';

const NEEDED = { DATABASE_URL: 'postgres://localhost/nightshift', ANTHROPIC_API_KEY: 'key' };

/** Returns the error message for an invalid environment. */
function refusalOf(env: Readonly<Record<string, string>>): string {
  try {
    readConfig(env);
  } catch (error) {
    expect(isError(error, 'bad_configuration')).toBe(true);
    return (error as Error).message;
  }
  throw new Error('The environment was accepted.');
}

test('every absent variable has its documented default', () => {
  expect(readConfig(NEEDED)).toEqual({
    database_url: 'postgres://localhost/nightshift',
    database_pool_max: 8,
    queue_url: 'none',
    provider: { apiKey: 'key', baseURL: 'https://api.anthropic.com' },
    simulated: false,
    tools_dirs: [],
    tool_threads: 0,
    tools_allow_private: false,
    mcp_programs: new Map(),
    tool_thread_memory_mb: 256,
    log_level: 'info',
    name: `${hostname()}:${process.pid}`,
    owner: expect.stringMatching(new RegExp(`^${hostname()}:${process.pid}-[0-9a-f]{6}$`)),
    lease_duration_ms: 10_000,
    sweep_interval_ms: 2_000,
    hunt_interval_ms: 60_000,
    callbacks: { secret: undefined, allow_private: false, timeout_ms: 15_000 },
    secrets_keys: { current: null, old: [] },
    exit_with_parent: false,
    health_host: '127.0.0.1',
    health_port: null,
    quick_tools: {
      calls_min: 32,
      mean_ms_max: 2,
      call_ms_max: 100,
      result_chars_max: 50_000,
      chunk_ms_max: 1_000,
    },
    settings: {
      credential: 'default',
      body_dir: join('.data', 'bodies'),
      requests_max: 10_000,
      body_bytes_max: 64_000_000,
      gather_window_ms: 2_000,
      create_timeout_ms: 120_000,
      results_idle_timeout_ms: 120_000,
      results_bytes_per_second_min: 1_000,
      results_rate_window_ms: 300_000,
      ingest_lanes: 2,
      agents_per_portion: 2_000,
      chunk_lines: 1_000,
      chunks_in_flight: 2,
      line_bytes_max: 32_000_000,
      alone_delay_ms_max: 5_000,
      streams_max: 12,
      retry: {
        attempts_max: 4,
        retry_delay_ms: 5_000,
        retry_delay_ms_max: 600_000,
        outage_delay_ms: 300_000,
        outage_ms_max: 7_200_000,
      },
      poll: {
        poll_interval_ms: 60_000,
        poll_interval_ms_max: 300_000,
        missing_grace_ms: 900_000,
        looks: { likely: 0.05, delay_ms_min: 5_000, delay_ms_max: 300_000, calls_per_minute: 6 },
      },
      reconcile: {
        clock_skew_ms: 120_000,
        clock_margin_ms: 1_800_000,
        quarantine_ms: 150_000,
        search_interval_ms: 60_000,
        searches_min: 2,
      },
      refusal: { backoff_ms: 5_000, backoff_ms_max: 300_000, pause_ms: 300_000, refusals_max: 12 },
      breaker: expect.any(Object),
      workspace_is_ours: false,
      audit_interval_ms: 600_000,
      retention_days: null,
      prices: SHIPPED_PRICES,
    },
  });
});

test('the address of the command is ignored', () => {
  expect(() => readConfig({ ...NEEDED, NIGHTSHIFT_URL: 'no address' })).not.toThrow();
});

test('an empty variable counts as absent', () => {
  const names = [
    'QUEUE_URL',
    'ANTHROPIC_BASE_URL',
    'LEASE_MS',
    'GATHER_WINDOW_MS',
    'TOOL_THREADS',
    'WORKER_NAME',
  ];
  const empty = Object.fromEntries(names.map((name) => [name, '']));
  expect(readConfig({ ...NEEDED, ...empty })).toEqual(readConfig(NEEDED));
});

test('a time too long for a timer is refused by the name of its variable', () => {
  const times = VARIABLES.filter((name) => name.endsWith('_MS'));
  expect(times).toHaveLength(16);
  for (const name of times) {
    expect(refusalOf({ ...NEEDED, [name]: '2147483647' })).toContain(`${name}: `);
  }
  expect(refusalOf({ ...NEEDED, SWEEP_INTERVAL_MS: '1900000001' })).toContain(
    'SWEEP_INTERVAL_MS: must be at most 1900000000 (22 days)',
  );
  // The longest sweep interval, with its jitter, is below 2^31 ms.
  expect(readConfig({ ...NEEDED, SWEEP_INTERVAL_MS: '1900000000' }).sweep_interval_ms * 1.1).toBeLessThan(
    2 ** 31,
  );
});

test('tool folders are separated like those in PATH', async () => {
  onTestFinished(() => {
    vi.doUnmock('node:path');
    vi.resetModules();
  });
  vi.resetModules();
  vi.doMock('node:path', async (actual) => ({ ...(await actual<object>()), delimiter: ';' }));
  const { readConfig: onWindows } = await import('../../src/config.ts');
  expect(onWindows({ ...NEEDED, TOOLS_DIR: 'C:\\tools;D:\\more' }).tools_dirs).toEqual([
    'C:\\tools',
    'D:\\more',
  ]);
});

const SECRET = `whsec_${'c2VjcmV0'.repeat(4)}`;

const PRICES_FILE = join(import.meta.dirname, 'prices.json');
const MCP_SERVERS_FILE = join(import.meta.dirname, 'mcp-servers.json');

/** Each variable with a value other than its default, and its place in the configuration. */
const GIVEN: readonly (readonly [
  string,
  string,
  (config: ReturnType<typeof readConfig>) => unknown,
  unknown,
])[] = [
  ['DATABASE_URL', 'postgres://db/x', (c) => c.database_url, 'postgres://db/x'],
  ['QUEUE_URL', 'redis://q', (c) => c.queue_url, 'redis://q'],
  ['ANTHROPIC_API_KEY', 'k2', (c) => c.provider.apiKey, 'k2'],
  ['ANTHROPIC_BASE_URL', 'http://127.0.0.1:9', (c) => c.provider.baseURL, 'http://127.0.0.1:9'],
  ['SIMULATOR_URL', 'https://api.anthropic.com/', (c) => c.simulated, true],
  ['TOOLS_DIR', ['/a', '/b'].join(delimiter), (c) => c.tools_dirs, ['/a', '/b']],
  ['TOOL_THREADS', '64', (c) => c.tool_threads, 64],
  ['TOOL_THREAD_MEMORY_MB', '512', (c) => c.tool_thread_memory_mb, 512],
  ['DATA_DIR', '/data', (c) => c.settings.body_dir, join('/data', 'bodies')],
  ['LOG_LEVEL', 'warn', (c) => c.log_level, 'warn'],
  ['LEASE_MS', '9000', (c) => c.lease_duration_ms, 9_000],
  ['SWEEP_INTERVAL_MS', '400', (c) => c.sweep_interval_ms, 400],
  ['HUNT_INTERVAL_MS', '700', (c) => c.hunt_interval_ms, 700],
  ['AUDIT_INTERVAL_MS', '800', (c) => c.settings.audit_interval_ms, 800],
  ['RETENTION_DAYS', '30', (c) => c.settings.retention_days, 30],
  ['GATHER_WINDOW_MS', '0', (c) => c.settings.gather_window_ms, 0],
  ['REQUESTS_MAX', '100000', (c) => c.settings.requests_max, 100_000],
  ['BODY_BYTES_MAX', '240000000', (c) => c.settings.body_bytes_max, 240_000_000],
  ['CREATE_TIMEOUT_MS', '1000', (c) => c.settings.create_timeout_ms, 1_000],
  ['RESULTS_IDLE_TIMEOUT_MS', '1000', (c) => c.settings.results_idle_timeout_ms, 1_000],
  ['RESULTS_BYTES_PER_SECOND_MIN', '0', (c) => c.settings.results_bytes_per_second_min, 0],
  ['RESULTS_RATE_WINDOW_MS', '1000', (c) => c.settings.results_rate_window_ms, 1_000],
  ['INGEST_LANES', '4', (c) => c.settings.ingest_lanes, 4],
  ['POLL_INTERVAL_MS', '250', (c) => c.settings.poll.poll_interval_ms, 250],
  ['MISSING_GRACE_MS', '5000', (c) => c.settings.poll.missing_grace_ms, 5_000],
  ['QUARANTINE_MS', '200000', (c) => c.settings.reconcile.quarantine_ms, 200_000],
  ['SEARCH_INTERVAL_MS', '50', (c) => c.settings.reconcile.search_interval_ms, 50],
  ['RETRY_DELAY_MS', '10', (c) => c.settings.retry.retry_delay_ms, 10],
  ['OUTAGE_DELAY_MS', '20', (c) => c.settings.retry.outage_delay_ms, 20],
  ['OUTAGE_MAX_MS', '20', (c) => c.settings.retry.outage_ms_max, 20],
  ['WORKSPACE_SHARED', '0', (c) => c.settings.workspace_is_ours, true],
  ['CALLBACK_SECRET', SECRET, (c) => c.callbacks.secret, SECRET],
  ['CALLBACK_ALLOW_PRIVATE', '1', (c) => c.callbacks.allow_private, true],
  ['TOOLS_ALLOW_PRIVATE', '1', (c) => c.tools_allow_private, true],
  ['SECRETS_KEY', '00'.repeat(32), (c) => c.secrets_keys.current?.id, '66687aadf862bd77'],
  [
    'SECRETS_KEYS_OLD',
    `${'00'.repeat(32)},${Buffer.alloc(32).toString('base64')}`,
    (c) => c.secrets_keys.old.map(({ id }) => id),
    ['66687aadf862bd77', '66687aadf862bd77'],
  ],
  [
    'MCP_SERVERS_FILE',
    MCP_SERVERS_FILE,
    (c) => [...c.mcp_programs],
    [['tickets', { command: 'tickets-mcp', args: ['--stdio'], env: {} }]],
  ],
  ['PRICES_FILE', PRICES_FILE, (c) => c.settings.prices.version, '2030-01-01'],
  ['CHUNK_LINES', '5000', (c) => c.settings.chunk_lines, 5_000],
  ['QUICK_CALLS_MS', '0', (c) => c.quick_tools.chunk_ms_max, 0],
  ['DATABASE_POOL_MAX', '2', (c) => c.database_pool_max, 2],
  ['HEALTH_HOST', '0.0.0.0', (c) => c.health_host, '0.0.0.0'],
  ['HEALTH_PORT', '0', (c) => c.health_port, 0],
  ['EXIT_WITH_PARENT', '1', (c) => c.exit_with_parent, true],
  ['WORKER_NAME', 'w1', (c) => c.name, 'w1'],
];

test.each(GIVEN)('%s=%s takes effect', (name, value, read, wanted) => {
  expect(read(readConfig({ ...NEEDED, [name]: value }))).toEqual(wanted);
});

test.each([
  ['LEASE_MS', '0'],
  ['LEASE_MS', '-5'],
  ['LEASE_MS', '1.5'],
  ['LEASE_MS', 'soon'],
  ['SWEEP_INTERVAL_MS', '0'],
  ['HUNT_INTERVAL_MS', '0'],
  ['GATHER_WINDOW_MS', '-1'],
  ['REQUESTS_MAX', '100001'],
  ['BODY_BYTES_MAX', '240000001'],
  ['CREATE_TIMEOUT_MS', 'never'],
  ['RESULTS_IDLE_TIMEOUT_MS', '0'],
  ['RESULTS_BYTES_PER_SECOND_MIN', '-1'],
  ['RESULTS_RATE_WINDOW_MS', '0'],
  ['INGEST_LANES', '17'],
  ['POLL_INTERVAL_MS', '0'],
  ['MISSING_GRACE_MS', '0'],
  ['QUARANTINE_MS', 'x'],
  ['SEARCH_INTERVAL_MS', '0'],
  ['RETRY_DELAY_MS', '0'],
  ['CHUNK_LINES', '5001'],
  ['QUICK_CALLS_MS', '60001'],
  ['SECRETS_KEY', '00'.repeat(31)],
  ['SECRETS_KEY', 'not a key'],
  ['SECRETS_KEYS_OLD', `${'00'.repeat(32)},x`],
  ['CALLBACK_SECRET', 'whsec_short'],
  ['CALLBACK_ALLOW_PRIVATE', 'yes'],
  ['TOOLS_ALLOW_PRIVATE', 'yes'],
  ['DATABASE_POOL_MAX', '0'],
  ['TOOL_THREADS', '-1'],
  // Above the tool host's own maximum, whose error lacks the variable's name.
  ['TOOL_THREADS', '65'],
  ['TOOL_THREAD_MEMORY_MB', '31'],
  ['TOOL_THREAD_MEMORY_MB', '65537'],
  ['LOG_LEVEL', 'loud'],
  ['EXIT_WITH_PARENT', 'yes'],
  ['WORKSPACE_SHARED', 'true'],
  ['ANTHROPIC_BASE_URL', 'not a url'],
])('%s=%s is refused by name', (name, value) => {
  expect(refusalOf({ ...NEEDED, [name]: value })).toContain(`${name}:`);
});

test('answers count as simulated only when the provider is the simulator', () => {
  const simulatedAt = (ANTHROPIC_BASE_URL: string): boolean =>
    readConfig({ ...NEEDED, ANTHROPIC_BASE_URL, SIMULATOR_URL: 'http://simulator:8290' }).simulated;
  expect(['http://simulator:8290/', 'https://gateway.example', ''].map(simulatedAt)).toEqual([
    true,
    false,
    false,
  ]);
});

test('a missing or invalid file of MCP servers is refused', () => {
  expect(refusalOf({ ...NEEDED, MCP_SERVERS_FILE: '/nowhere' })).toContain('cannot be read');
  expect(refusalOf({ ...NEEDED, MCP_SERVERS_FILE: import.meta.filename })).toContain('is not JSON');
});

test('a missing or invalid price table is refused', () => {
  expect(refusalOf({ ...NEEDED, PRICES_FILE: '/nowhere' })).toBe('PRICES_FILE: /nowhere cannot be read.');
  expect(refusalOf({ ...NEEDED, PRICES_FILE: import.meta.filename })).toContain('is not JSON');
});

test('one error names all invalid variables and shows no value', () => {
  const message = refusalOf({ LEASE_MS: 'secret-1', CHUNK_LINES: 'secret-2' });
  for (const name of ['DATABASE_URL', 'ANTHROPIC_API_KEY', 'LEASE_MS', 'CHUNK_LINES']) {
    expect(message).toContain(`${name}:`);
  }
  expect(message).not.toContain('secret');
});

describe('settings that must fit together', () => {
  test('a quarantine shorter than a lease is refused', () => {
    expect(refusalOf({ ...NEEDED, LEASE_MS: '30000', QUARANTINE_MS: '29999' })).toContain(
      'QUARANTINE_MS: must be at least LEASE_MS',
    );
    expect(readConfig({ ...NEEDED, LEASE_MS: '30000', QUARANTINE_MS: '30000' }).lease_duration_ms).toBe(
      30_000,
    );
  });

  test('the quarantine is never shorter than the timeout of a create', () => {
    const config = readConfig({ ...NEEDED, CREATE_TIMEOUT_MS: '600000', QUARANTINE_MS: '150000' });
    expect(config.settings.reconcile.quarantine_ms).toBe(600_000);
  });

  test('a poll interval is fixed: polls do not follow the turnarounds seen', () => {
    const { poll } = readConfig({ ...NEEDED, POLL_INTERVAL_MS: '60000' }).settings;
    expect(poll).toEqual({
      poll_interval_ms: 60_000,
      poll_interval_ms_max: 300_000,
      missing_grace_ms: 900_000,
    });
  });

  test('a poll interval above the usual maximum also applies to old batches', () => {
    const config = readConfig({ ...NEEDED, POLL_INTERVAL_MS: '400000' });
    expect(config.settings.poll).toMatchObject({ poll_interval_ms: 400_000, poll_interval_ms_max: 400_000 });
  });

  test('a first retry delay above the usual maximum is kept', () => {
    const config = readConfig({ ...NEEDED, RETRY_DELAY_MS: '900000' });
    expect(config.settings.retry).toMatchObject({ retry_delay_ms: 900_000, retry_delay_ms_max: 900_000 });
  });
});

test('these tests cover every variable of the schema', async () => {
  const { readFile } = await import('node:fs/promises');
  const source = await readFile(new URL('../../src/config.ts', import.meta.url), 'utf8');
  const names = [...source.matchAll(/^ {4}([A-Z][A-Z_]+):/gm)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(20);
  expect(new Set(names)).toEqual(new Set(GIVEN.map(([name]) => name)));
});
