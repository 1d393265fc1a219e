import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test, type TestContext } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { read } from './repository.ts';

const programs = ['bash', 'curl', 'psql', 'sort', 'comm'];

/** The provider's list, newest first; the database knows one entry. */
const LISTED = [
  { id: 'msgbatch_next_day', created_at: '2026-01-02T09:00:00Z' },
  { id: 'msgbatch_known', created_at: '2026-01-01T04:20:00Z' },
  { id: 'msgbatch_after', created_at: '2026-01-01T04:10:00Z' },
  { id: 'msgbatch_by_another_clock', created_at: '2026-01-01T03:59:30Z' },
  { id: 'msgbatch_before', created_at: '2026-01-01T03:50:00Z' },
];

/** Runs step 2 of a restore in docs/OPERATING.md on a machine in New York. */
async function cancelUnknown(
  context: TestContext,
  backupTime: string,
): Promise<{ readonly cancelled: readonly string[]; readonly errors: string }> {
  const missing = programs.filter((program) => spawnSync(program, ['--version']).status !== 0);
  if (missing.length > 0) context.skip(`there is no ${missing.join(' and no ')} here`);

  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  await database.pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at, body_bytes, body_sha256,
       submit_started_at, provider_id, submitted_at)
     select gen_random_uuid(), project_id, name, 'submitted', 'nonce1', 1, now(), 1, 'x', now(), 'msgbatch_known', now()
       from credential`,
  );
  const cancelled: string[] = [];
  const provider = createServer(({ method, url = '' }, response) => {
    const [, id] = /\/batches\/(\w+)\/cancel$/.exec(url) ?? [];
    if (method === 'POST' && id !== undefined) cancelled.push(id);
    response.end(JSON.stringify({ data: LISTED, has_more: false }));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void provider.close());
  await once(provider, 'listening');
  const folder = mkdtempSync(join(tmpdir(), 'nightshift-restore-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));

  const [, example = ''] = /^ {3}```sh\n([\s\S]*?)^ {3}```$/m.exec(read('docs/OPERATING.md')) ?? [];
  expect(example).toMatch(/^ {3}API=\S+ T=\S+\n/);
  // The only differences from a reader's shell: the provider's address and the time.
  const { port } = provider.address() as AddressInfo;
  const api = `http://127.0.0.1:${port}/v1/messages/batches`;
  const script = example.replace(/^ *API=.*$/m, `API=${api} T='${backupTime}'`);
  const { stderr } = await promisify(execFile)('bash', ['--norc', '-c', script], {
    cwd: folder,
    env: {
      PATH: [dirname(process.execPath), process.env.PATH ?? ''].join(delimiter),
      TZ: 'America/New_York',
      NO_COLOR: '1',
      ANTHROPIC_API_KEY: 'key',
      DATABASE_URL: forPsql(database.url),
    },
  });
  return { cancelled: cancelled.toSorted(), errors: stderr };
}

/** Removes the parameters that psql before 17 refuses. */
function forPsql(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.searchParams.delete('sslnegotiation');
  return url.href;
}

test.for(['2026-01-01T04:00:00Z', '2026-01-01T04:00:00', '2026-01-01 04:00', '2025-12-31T23:00:00-05:00'])(
  'the restore in docs/OPERATING.md cancels unknown batches sent since %s',
  async (backupTime, context) => {
    expect(await cancelUnknown(context, backupTime)).toEqual({
      cancelled: ['msgbatch_after', 'msgbatch_by_another_clock', 'msgbatch_next_day'],
      errors: '',
    });
  },
);

test.for(['', 'this morning', '2026-01-01T25:00:00Z'])(
  'the restore in docs/OPERATING.md refuses %j as a time and cancels nothing',
  async (backupTime, context) => {
    const { cancelled, errors } = await cancelUnknown(context, backupTime);
    expect(cancelled).toEqual([]);
    expect(errors).toContain(`Error: T is not a time: ${backupTime}\n`);
  },
);
