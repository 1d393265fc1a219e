import { readFileSync } from 'node:fs';
import { inPlainWords, loadPriceTable, NightshiftError, type PriceTable } from '@nightshift/agent-core';
import {
  readSecretsKeys,
  SECRETS_KEY_FORM,
  SECRETS_KEY_RULE,
  SECRETS_KEYS_FORM,
  SECRETS_KEYS_RULE,
  type SecretsKeys,
} from '@nightshift/intake';
import { z } from 'zod';

const port = z.coerce.number().int().min(0).max(65_535);

/** Every environment variable of the API. The configuration page is generated from it. */
export const environment = z.object({
  HOST: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('Address to listen on; 127.0.0.1 accepts connections from this machine only.'),
  PORT: port.default(8283).describe('Port of the API; 0 takes a free one.'),
  DATABASE_URL: z
    .string({ error: 'is required: postgres://user:password@host:5432/database' })
    .regex(/^postgres(ql)?:\/\//, 'must look like postgres://user:password@host:5432/database'),
  QUEUE_URL: z.string().default('none'),
  NIGHTSHIFT_API_KEY: z
    .string()
    .min(16, 'must have at least 16 characters')
    .regex(/^[!-~]*$/, 'must be visible ASCII: no blanks, no line breaks')
    .optional()
    .describe(
      'Key that clients send as a bearer token: visible ASCII, no blanks. Without it the first start makes a key and keeps it under DATA_DIR.',
    ),
  ANTHROPIC_API_KEY: z
    .string()
    .optional()
    .describe(
      "Selects the model that the API shows: Anthropic's with the key, the simulator's without. The worker's own key " +
        'decides which is used.',
    ),
  SECRETS_KEY: z
    .string()
    .regex(SECRETS_KEY_FORM, SECRETS_KEY_RULE)
    .optional()
    .describe(
      'Key that encrypts secrets: 32 bytes in base64 or hex, the same for the API and all workers. `npm start` makes ' +
        'one and keeps it under DATA_DIR; otherwise no secret can be stored without it.',
    ),
  SECRETS_KEYS_OLD: z
    .string()
    .regex(SECRETS_KEYS_FORM, SECRETS_KEYS_RULE)
    .optional()
    .describe(
      'Earlier values of SECRETS_KEY, separated by commas: they decrypt secrets that are not rotated yet.',
    ),
  TOOLS_ALLOW_PRIVATE: z.enum(['0', '1']).default('0'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('Lowest severity of the log lines that are written.'),
  DATA_DIR: z.string().min(1).default('.data'),
  PRICES_FILE: z
    .string()
    .optional()
    .describe(
      'File with the prices of models, in the form of `libs/agent-core/src/model/prices.json`, which is the default. API ' +
        'and workers need the same prices.',
    ),
  BODY_BYTES_TOGETHER_MAX: z.coerce
    .number()
    .int()
    .min(1)
    .default(536_870_912)
    .describe(
      'Bytes of all request bodies that the API holds at once; a request beyond them is answered 503, and its client ' +
        'should retry. A body takes several times its bytes of memory.',
    ),
  EVENT_STREAMS_MAX: z.coerce
    .number()
    .int()
    .min(0)
    .default(1_000)
    .describe('Event streams that the API serves at once; a request beyond them is answered 503.'),
  EXIT_WITH_PARENT: z
    .enum(['0', '1'])
    .default('0')
    .describe('Ends the API when its standard input closes, so that it does not outlive a killed parent.'),
});

/** The names of all variables of the API. */
export const VARIABLES: readonly string[] = Object.keys(environment.shape);

/** Variables of tests and of the command, which the API ignores. */
export const FOREIGN_NAMES: ReadonlySet<string> = new Set([
  'NIGHTSHIFT_URL',
  'NIGHTSHIFT_TEST_COUNTS',
  'NIGHTSHIFT_USE_DOCKER',
  'NIGHTSHIFT_EVERY_BYTE',
]);

/** The parsed environment. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly databaseUrl: string;
  readonly queueUrl: string;
  /** Null: a key is created at the first start and kept under `dataDir`. */
  readonly apiKey: string | null;
  readonly secretsKeys: SecretsKeys;
  readonly toolsAllowPrivate: boolean;
  readonly model: 'simulator' | 'anthropic';
  readonly logLevel: string;
  readonly dataDir: string;
  readonly prices: PriceTable;
  readonly bodyBytesMax: number;
  readonly eventStreamsMax: number;
  readonly exitWithParent: boolean;
}

/**
 * Reads the environment.
 * Throws: `bad_configuration`, with every wrong or unknown variable but no value.
 */
export function readConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
  const unknown = Object.keys(given).filter(
    (name) => name.startsWith('NIGHTSHIFT_') && !(name in environment.shape) && !FOREIGN_NAMES.has(name),
  );
  const parsed = environment.safeParse(given);
  const problems = [
    ...unknown.map((name) => `${name} is not known; check its spelling`),
    ...(parsed.error?.issues ?? []).map((issue) => `${issue.path.join('.')} ${inPlainWords(issue.message)}`),
  ];
  if (parsed.data === undefined || problems.length > 0) {
    throw new NightshiftError('bad_configuration', `Bad configuration: ${problems.join('; ')}.`);
  }
  const { data } = parsed;
  return {
    host: data.HOST,
    port: data.PORT,
    databaseUrl: data.DATABASE_URL,
    queueUrl: data.QUEUE_URL,
    apiKey: data.NIGHTSHIFT_API_KEY ?? null,
    secretsKeys: readSecretsKeys(data.SECRETS_KEY, data.SECRETS_KEYS_OLD),
    toolsAllowPrivate: data.TOOLS_ALLOW_PRIVATE === '1',
    model: data.ANTHROPIC_API_KEY === undefined ? 'simulator' : 'anthropic',
    logLevel: data.LOG_LEVEL,
    dataDir: data.DATA_DIR,
    prices: loadPriceTable(data.PRICES_FILE, (path) => readFileSync(path, 'utf8')),
    bodyBytesMax: data.BODY_BYTES_TOGETHER_MAX,
    eventStreamsMax: data.EVENT_STREAMS_MAX,
    exitWithParent: data.EXIT_WITH_PARENT === '1',
  };
}
