import { DEFAULT_PROJECT_ID } from '@nightshift/db';
import { lendTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import type { Signal } from '@nightshift/queue';
import { readSecretsKeys } from '@nightshift/intake';
import { inject } from 'vitest';
import { buildServer } from '../src/index.ts';
import { checkAnswer } from './check-answer.ts';

export const API_KEY = 'ns_test_key_of_the_suite';
export const PROJECT_ID = DEFAULT_PROJECT_ID;
export const SECRETS_KEY = Buffer.alloc(32, 7).toString('base64');
export const UNKNOWN_UUID = '01890000-0000-7000-8000-000000000000';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  // Parsed JSON; what follows it is the check.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any;
}

export interface TestApi {
  readonly database: TestDatabase;
  readonly app: ReturnType<typeof buildServer>;
  /** All signals so far. */
  readonly signals: Signal[];
  /** Sends a request. Throws: the difference of the answer from openapi.json. */
  call(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    url: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer>;
  close(): Promise<void>;
}

/** Opens a server with its own database, called without a network. `more`: dependencies besides the usual. */
export async function openApi(more: Partial<Parameters<typeof buildServer>[0]> = {}): Promise<TestApi> {
  const database = await lendTestDatabase(inject('postgresUrl'));
  const signals: Signal[] = [];
  const app = buildServer({
    db: database.db,
    bell: {
      ring: async (rung) => {
        signals.push(...rung);
      },
    },
    apiKey: API_KEY,
    model: 'simulator',
    databaseUrl: database.url,
    secretsKeys: readSecretsKeys(SECRETS_KEY, undefined),
    ...more,
  });
  await app.ready();
  return {
    database,
    app,
    signals,
    call: async (method, url, body, headers = {}) => {
      const answer = await app.inject({
        method,
        url,
        headers: {
          authorization: `Bearer ${API_KEY}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const isJson = /^application\/(problem\+)?json/.test(answer.headers['content-type']?.toString() ?? '');
      const parsed = isJson ? JSON.parse(answer.body) : answer.body;
      if (isJson) checkAnswer(method, url, answer.statusCode, parsed);
      return {
        status: answer.statusCode,
        headers: answer.headers as Record<string, string>,
        body: parsed,
      };
    },
    close: async () => {
      await app.close();
      await database.close();
    },
  };
}

/** Creates an agent and returns its id. */
export async function createAgent(api: TestApi, overrides: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await api.call('POST', '/v1/agents/', {
    model: 'anthropic/claude-haiku-4-5',
    name: 'agent',
    memory_blocks: [{ label: 'human', value: 'Name: unknown' }],
    ...overrides,
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.id;
}

/** Counts the rows of each table that a create writes. */
export async function countRows(api: TestApi): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of [
    'agent',
    'block',
    'block_revision',
    'agent_block',
    'agent_tool',
    'conversation',
    'definition',
    'batch',
    'run',
    'run_chunk',
    'message',
    'queued_input',
    'idempotency_key',
  ] as const) {
    const row = await api.database.db
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    counts[table] = row.count;
  }
  return counts;
}

/** Waits until a statement waits for a lock. */
export async function untilLockIsAwaited(api: TestApi): Promise<void> {
  for (;;) {
    const { rows } = await api.database.pool.query<{ waits: boolean }>(
      `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waits`,
    );
    if (rows[0]?.waits === true) return;
  }
}
