import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { delimiter, join } from 'node:path';
import {
  BATCH_REQUESTS_MAX,
  BREAKER_POLICY_DEFAULT,
  inPlainWords,
  loadPriceTable,
  LOOK_POLICY_DEFAULT,
  NightshiftError,
  POLL_POLICY_DEFAULT,
  RECONCILE_POLICY_DEFAULT,
  REFUSAL_POLICY_DEFAULT,
  RETRY_POLICY_DEFAULT,
} from '@nightshift/agent-core';
import {
  readSecretsKeys,
  SECRETS_KEY_FORM,
  SECRETS_KEY_RULE,
  SECRETS_KEYS_FORM,
  SECRETS_KEYS_RULE,
  type SecretsKeys,
} from '@nightshift/intake';
import {
  TOOL_THREAD_MEMORY_MB_DEFAULT,
  TOOL_THREAD_MEMORY_MB_MAX,
  TOOL_THREAD_MEMORY_MB_MIN,
  TOOL_THREADS_MAX,
} from '@nightshift/tool-host';
import { z } from 'zod';
import type { CallbackOptions } from './callbacks/post-callback.ts';
import type { FlowSettings } from './flow-parts/deps.ts';
import { parseMcpPrograms, type McpProgram } from './tools/mcp/programs.ts';
import { QUICK_TOOLS_POLICY_DEFAULT, type QuickToolsPolicy } from './flow-parts/calls/quick-tools.ts';

const positive = z.coerce.number().int().positive();
const natural = z.coerce.number().int().nonnegative();

/** Timers beyond 2^31 ms fire at once; the limit leaves room for the tenth that the sweep adds as jitter. */
const TOO_LONG = 'must be at most 1900000000 (22 days)';
const positiveMs = positive.max(1_900_000_000, TOO_LONG);
const naturalMs = natural.max(1_900_000_000, TOO_LONG);

/**
 * Identifies this process in leases. A stop releases all leases of its owner, so two processes of one name would release each
 * other's. Containers may share host and pid, so a random suffix follows.
 */
const HOST_AND_PID = `${hostname()}:${process.pid}`;
const PROCESS = `${HOST_AND_PID}-${randomBytes(3).toString('hex')}`;

const QUARANTINE_RULE = 'must be at least LEASE_MS';

/** The environment variables of the worker, read once by `main.ts`. Source of docs/reference/configuration.md. */
export const environment = z
  .object({
    DATABASE_URL: z.string().min(1).describe('URL of the Postgres that the API and all workers share.'),
    QUEUE_URL: z
      .string()
      .default('none')
      .describe('`redis://…`, `postgres://…` or `none`. Without a queue the sweep finds all work.'),
    ANTHROPIC_API_KEY: z.string().min(1).describe('Key of the provider.'),
    ANTHROPIC_BASE_URL: z
      .url()
      .default('https://api.anthropic.com')
      .describe("Base URL of the provider; the simulator's, or the real one."),
    SIMULATOR_URL: z
      .url()
      .optional()
      .describe(
        'Base URL of the simulator, if it runs. A worker whose provider has this URL marks its answers as simulated.',
      ),
    TOOLS_DIR: z
      .string()
      .default('')
      .describe('Folders with tool modules, separated as in PATH: by `:`, on Windows by `;`.'),
    TOOL_THREADS: natural
      .max(TOOL_THREADS_MAX)
      .default(0)
      .describe(
        'Threads of the tool host for fast calls; 0: one per core, at most 4. While calls wait, fast and slow calls have up to twice this number plus one each.',
      ),
    TOOL_THREAD_MEMORY_MB: positive
      .min(TOOL_THREAD_MEMORY_MB_MIN)
      .max(TOOL_THREAD_MEMORY_MB_MAX)
      .default(TOOL_THREAD_MEMORY_MB_DEFAULT)
      .describe(
        'Memory limit of one thread of the tool host in megabytes: heap and buffers, including uncollected garbage. A thread that exceeds it is ended.',
      ),
    TOOLS_ALLOW_PRIVATE: z
      .enum(['0', '1'])
      .default('0')
      .describe('1 allows HTTP tools, MCP servers and uploaded code at addresses inside a private network.'),
    MCP_SERVERS_FILE: z
      .string()
      .optional()
      .describe(
        'JSON file with MCP servers that the worker starts as programs: `{"mcpServers": {NAME: {"command", "args", "env"}}}`. A program sees PATH and its `env` only. All workers need the same file.',
      ),
    DATA_DIR: z.string().default('.data').describe('Directory of all files written at run time.'),
    LOG_LEVEL: z
      .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
      .default('info')
      .describe('Lowest level of log lines that are written.'),
    HEALTH_PORT: natural
      .max(65_535)
      .optional()
      .describe(
        'Port of `/livez`, by which a supervisor can detect a worker that hangs; 0 takes a free port. Without it the worker opens no port.',
      ),
    HEALTH_HOST: z
      .string()
      .min(1)
      .default('127.0.0.1')
      .describe('Address for `HEALTH_PORT`; 127.0.0.1 accepts this machine only.'),
    LEASE_MS: positiveMs
      .default(10_000)
      .describe(
        'Duration of a lease on a row without renewal, in milliseconds. The worker renews it after each third.',
      ),
    SWEEP_INTERVAL_MS: positiveMs
      .default(2_000)
      .describe('Milliseconds between two sweeps, which find all due rows without a signal.'),
    HUNT_INTERVAL_MS: positiveMs
      .default(60_000)
      .describe(
        'Milliseconds between two searches for duplicate provider batches of submissions with an unknown outcome. Each search is one provider call.',
      ),
    GATHER_WINDOW_MS: naturalMs
      .default(2_000)
      .describe(
        'Milliseconds that ready runs wait for more runs before a partly filled provider batch is composed.',
      ),
    REQUESTS_MAX: positive
      .max(BATCH_REQUESTS_MAX)
      .default(10_000)
      .describe(
        'Requests at which a provider batch counts as full. Runs are claimed in whole chunks, so it may hold more; the provider allows 100,000.',
      ),
    BODY_BYTES_MAX: positive
      .max(240_000_000)
      .default(64_000_000)
      .describe('Maximum bytes of one provider batch; the provider allows 256 MB.'),
    CREATE_TIMEOUT_MS: positiveMs
      .default(120_000)
      .describe('Timeout of one create of a provider batch in milliseconds, including the upload.'),
    RESULTS_IDLE_TIMEOUT_MS: positiveMs
      .default(120_000)
      .describe('Milliseconds without a byte after which a result stream is closed and retried later.'),
    RESULTS_BYTES_PER_SECOND_MIN: natural
      .max(1_000_000)
      .default(1_000)
      .describe(
        'Bytes per second, averaged over RESULTS_RATE_WINDOW_MS, below which a result stream is closed and retried later; 0 allows every rate.',
      ),
    RESULTS_RATE_WINDOW_MS: positiveMs
      .default(300_000)
      .describe('Milliseconds of waiting over which the rate of a result stream is averaged.'),
    INGEST_LANES: positive
      .max(16)
      .default(2)
      .describe(
        'Result files that a worker reads in parallel, so that a slow file does not delay the others.',
      ),
    POLL_INTERVAL_MS: positiveMs
      .optional()
      .describe(
        'Fixed milliseconds between two polls of a provider batch in its first hour; later 300,000, or this value if it is greater. Without it, polls follow the turnarounds seen, with at most six calls a minute over all workers.',
      ),
    MISSING_GRACE_MS: positiveMs
      .default(POLL_POLICY_DEFAULT.missing_grace_ms)
      .describe(
        'Milliseconds for which the worker keeps polling a provider batch that the provider no longer finds; then its steps are sent again.',
      ),
    QUARANTINE_MS: positiveMs.default(RECONCILE_POLICY_DEFAULT.quarantine_ms).meta({
      description:
        "Milliseconds before the provider's list is searched for a create without a clear answer; CREATE_TIMEOUT_MS if that is greater.",
      rule: QUARANTINE_RULE,
    }),
    SEARCH_INTERVAL_MS: positiveMs
      .default(RECONCILE_POLICY_DEFAULT.search_interval_ms)
      .describe('Milliseconds between two searches for a create without a clear answer.'),
    RETRY_DELAY_MS: positiveMs
      .default(RETRY_POLICY_DEFAULT.retry_delay_ms)
      .describe('Milliseconds before the second attempt of a step that failed at the provider.'),
    OUTAGE_DELAY_MS: positiveMs
      .default(RETRY_POLICY_DEFAULT.outage_delay_ms)
      .describe(
        'Milliseconds before a step that failed in an outage of the provider is sent again; such an attempt does not count before `OUTAGE_MAX_MS`.',
      ),
    OUTAGE_MAX_MS: naturalMs
      .default(RETRY_POLICY_DEFAULT.outage_ms_max)
      .describe(
        'Milliseconds after the first failure of a step from which an attempt that fails in an outage counts.',
      ),
    AUDIT_INTERVAL_MS: positiveMs
      .default(600_000)
      .describe(
        'Milliseconds between two audits, across all workers; at least twenty times the duration of the last audit, at most a day.',
      ),
    RETENTION_DAYS: z.coerce
      .number()
      .int()
      .min(1)
      .max(3_650)
      .optional()
      .describe(
        'Days after their end at which batches are forgotten, with their runs, steps and isolated conversations; empty: never. `expires_in_days` of a batch takes precedence.',
      ),
    WORKSPACE_SHARED: z
      .enum(['0', '1'])
      .default('1')
      .describe(
        '0: no other program creates batches in the provider workspace. A batch that looks like a duplicate submission is then cancelled before its results prove it.',
      ),
    PRICES_FILE: z
      .string()
      .optional()
      .describe(
        'Price table of models, in the shape of `libs/agent-core/src/model/prices.json`, which is the default. API and workers need the same table.',
      ),
    CHUNK_LINES: positive.max(5_000).default(1_000).describe('Result lines per transaction.'),
    QUICK_CALLS_MS: natural
      .max(60_000)
      .default(1_000)
      .describe(
        'Milliseconds that tool calls without side effects may delay the commit of their answers, so that both are committed together; 0: every call starts after its answer is committed.',
      ),
    SECRETS_KEY: z.string().regex(SECRETS_KEY_FORM, SECRETS_KEY_RULE).optional(),
    SECRETS_KEYS_OLD: z.string().regex(SECRETS_KEYS_FORM, SECRETS_KEYS_RULE).optional(),
    CALLBACK_SECRET: z
      .string()
      .regex(/^whsec_[A-Za-z0-9+/=]{32,}$/, 'must look like whsec_<base64 of at least 24 bytes>')
      .optional()
      .describe('Key that signs callbacks, `whsec_<base64>`; without it callbacks are unsigned.'),
    CALLBACK_ALLOW_PRIVATE: z
      .enum(['0', '1'])
      .default('0')
      .describe('1 allows callbacks to addresses inside a private network.'),
    DATABASE_POOL_MAX: positive.default(8).describe('Connections to Postgres; an audit takes one more.'),
    EXIT_WITH_PARENT: z
      .enum(['0', '1'])
      .default('0')
      .describe(
        '1: the worker ends when its standard input closes, so that it does not outlive a killed parent.',
      ),
    WORKER_NAME: z
      .string()
      .min(1)
      .optional()
      .describe('Name of this worker in logs and leases; default: host and process id.'),
  })
  .superRefine((env, context) => {
    if (env.QUARANTINE_MS < env.LEASE_MS) {
      context.addIssue({ code: 'custom', path: ['QUARANTINE_MS'], message: QUARANTINE_RULE });
    }
  });

export const VARIABLES: readonly string[] = Object.keys(environment.shape);

export interface WorkerConfig {
  readonly database_url: string;
  readonly database_pool_max: number;
  readonly queue_url: string;
  readonly provider: { readonly apiKey: string; readonly baseURL: string };
  /** True when the provider is the simulator. */
  readonly simulated: boolean;
  readonly tools_dirs: readonly string[];
  readonly tool_threads: number;
  readonly tool_thread_memory_mb: number;
  readonly log_level: string;
  readonly name: string;
  /** Owner in leases: the name and a unique suffix. */
  readonly owner: string;
  readonly lease_duration_ms: number;
  readonly sweep_interval_ms: number;
  readonly hunt_interval_ms: number;
  readonly exit_with_parent: boolean;
  readonly health_host: string;
  /** Null: no liveness endpoint. */
  readonly health_port: number | null;
  readonly secrets_keys: SecretsKeys;
  /** Whether tools may call private addresses. */
  readonly tools_allow_private: boolean;
  /** MCP servers that this worker starts, by name. */
  readonly mcp_programs: ReadonlyMap<string, McpProgram>;
  readonly callbacks: CallbackOptions;
  readonly quick_tools: QuickToolsPolicy;
  readonly settings: FlowSettings;
}

/**
 * Reads the environment. An empty variable counts as absent, as `${NAME:-}` in a compose file sets it.
 * Throws: `bad_configuration`, which names every invalid variable and shows no value.
 */
export function readConfig(env: NodeJS.ProcessEnv): WorkerConfig {
  const parsed = environment.safeParse(
    Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')),
  );
  if (!parsed.success) {
    const wrong = parsed.error.issues.map(
      (issue) => `${issue.path.join('.')}: ${inPlainWords(issue.message)}`,
    );
    throw new NightshiftError('bad_configuration', `The environment is not usable: ${wrong.join('; ')}.`);
  }
  const e = parsed.data;
  return {
    database_url: e.DATABASE_URL,
    database_pool_max: e.DATABASE_POOL_MAX,
    queue_url: e.QUEUE_URL,
    provider: { apiKey: e.ANTHROPIC_API_KEY, baseURL: e.ANTHROPIC_BASE_URL },
    simulated:
      e.SIMULATOR_URL !== undefined && new URL(e.SIMULATOR_URL).href === new URL(e.ANTHROPIC_BASE_URL).href,
    tools_dirs: e.TOOLS_DIR.split(delimiter).filter((dir) => dir !== ''),
    tool_threads: e.TOOL_THREADS,
    tool_thread_memory_mb: e.TOOL_THREAD_MEMORY_MB,
    log_level: e.LOG_LEVEL,
    name: e.WORKER_NAME ?? HOST_AND_PID,
    owner: e.WORKER_NAME === undefined ? PROCESS : `${e.WORKER_NAME}@${PROCESS}`,
    lease_duration_ms: e.LEASE_MS,
    sweep_interval_ms: e.SWEEP_INTERVAL_MS,
    hunt_interval_ms: e.HUNT_INTERVAL_MS,
    exit_with_parent: e.EXIT_WITH_PARENT === '1',
    health_host: e.HEALTH_HOST,
    health_port: e.HEALTH_PORT ?? null,
    secrets_keys: readSecretsKeys(e.SECRETS_KEY, e.SECRETS_KEYS_OLD),
    tools_allow_private: e.TOOLS_ALLOW_PRIVATE === '1',
    mcp_programs: readPrograms(e.MCP_SERVERS_FILE),
    callbacks: {
      secret: e.CALLBACK_SECRET,
      allow_private: e.CALLBACK_ALLOW_PRIVATE === '1',
      timeout_ms: 15_000,
    },
    quick_tools: { ...QUICK_TOOLS_POLICY_DEFAULT, chunk_ms_max: e.QUICK_CALLS_MS },
    settings: {
      credential: 'default',
      body_dir: join(e.DATA_DIR, 'bodies'),
      requests_max: e.REQUESTS_MAX,
      body_bytes_max: e.BODY_BYTES_MAX,
      gather_window_ms: e.GATHER_WINDOW_MS,
      create_timeout_ms: e.CREATE_TIMEOUT_MS,
      results_idle_timeout_ms: e.RESULTS_IDLE_TIMEOUT_MS,
      results_bytes_per_second_min: e.RESULTS_BYTES_PER_SECOND_MIN,
      results_rate_window_ms: e.RESULTS_RATE_WINDOW_MS,
      ingest_lanes: e.INGEST_LANES,
      chunk_lines: e.CHUNK_LINES,
      chunks_in_flight: 2,
      agents_per_portion: 2_000,
      line_bytes_max: 32_000_000,
      alone_delay_ms_max: 5_000,
      streams_max: 12,
      retry: {
        ...RETRY_POLICY_DEFAULT,
        retry_delay_ms: e.RETRY_DELAY_MS,
        outage_delay_ms: e.OUTAGE_DELAY_MS,
        outage_ms_max: e.OUTAGE_MAX_MS,
        retry_delay_ms_max: Math.max(e.RETRY_DELAY_MS, RETRY_POLICY_DEFAULT.retry_delay_ms_max),
      },
      poll: {
        ...POLL_POLICY_DEFAULT,
        ...(e.POLL_INTERVAL_MS === undefined
          ? { looks: LOOK_POLICY_DEFAULT }
          : {
              poll_interval_ms: e.POLL_INTERVAL_MS,
              poll_interval_ms_max: Math.max(e.POLL_INTERVAL_MS, POLL_POLICY_DEFAULT.poll_interval_ms_max),
            }),
        missing_grace_ms: e.MISSING_GRACE_MS,
      },
      reconcile: {
        ...RECONCILE_POLICY_DEFAULT,
        // The search must start after the last moment at which a create may arrive, or the batch is paid twice.
        quarantine_ms: Math.max(e.QUARANTINE_MS, e.CREATE_TIMEOUT_MS),
        search_interval_ms: e.SEARCH_INTERVAL_MS,
      },
      refusal: REFUSAL_POLICY_DEFAULT,
      breaker: BREAKER_POLICY_DEFAULT,
      workspace_is_ours: e.WORKSPACE_SHARED === '0',
      audit_interval_ms: e.AUDIT_INTERVAL_MS,
      retention_days: e.RETENTION_DAYS ?? null,
      prices: loadPriceTable(e.PRICES_FILE, (path) => readFileSync(path, 'utf8')),
    },
  };
}

function readPrograms(path: string | undefined): ReadonlyMap<string, McpProgram> {
  if (path === undefined) return new Map();
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    throw new NightshiftError('bad_configuration', 'The file of MCP_SERVERS_FILE cannot be read.');
  }
  return parseMcpPrograms(text);
}
