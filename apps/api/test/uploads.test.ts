import { gzipSync, zstdCompressSync } from 'node:zlib';
import { auditInvariants, readBatch } from '@nightshift/db';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { API_KEY, countRows, createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());
afterEach(async () => {
  expect(await auditInvariants(api.database.db)).toEqual([]);
});

/** Uploads lines, or bytes as they are. */
async function upload(
  lines: readonly unknown[] | Buffer | string,
  headers: Record<string, string> = {},
  url = '/v1/batches',
) {
  const payload =
    typeof lines === 'string' || Buffer.isBuffer(lines)
      ? lines
      : lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const answer = await api.app.inject({
    method: 'POST',
    url,
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl', ...headers },
    payload,
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() };
}

const request = (custom_id: string, extra: object = {}) => ({ agent_id, input: 'Go.', custom_id, ...extra });
const numbered = (count: number, of: (index: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, index) => request(`task-${index}`, of(index)));
const staged = async () =>
  (
    await api.database.pool.query<{ uploads: number; lines: number }>(
      `select (select count(*)::int from upload) as uploads,
              (select count(*)::int from staged_line l where not exists (select from batch b where b.id = l.batch_id)) as lines`,
    )
  ).rows[0];
const linesOf = async (id: string) =>
  (
    await api.database.pool.query<{ ordinal: number; custom_id: string; run: Record<string, unknown> }>(
      'select ordinal, custom_id, run from staged_line where batch_id = $1 order by ordinal',
      [id.slice('job-'.length)],
    )
  ).rows;

describe('an upload', () => {
  test.each([
    ['plain', {}, (bytes: Buffer) => bytes],
    ['gzip', { 'content-encoding': 'gzip' }, gzipSync],
    ['zstd', { 'content-encoding': 'zstd' }, zstdCompressSync],
  ] as const)('of requests, %s, becomes a batch that is received', async (_name, headers, encode) => {
    const bytes = Buffer.from(
      numbered(12_000)
        .map((line) => JSON.stringify(line))
        .join('\n'),
    );
    const { status, body } = await upload(encode(bytes) as Buffer, headers);
    expect([status, body.state, body.counts.total]).toEqual([200, 'receiving', 12_000]);
    const rows = await linesOf(body.id);
    expect(rows.map(({ custom_id }) => custom_id)).toEqual(
      numbered(12_000).map(({ custom_id }) => custom_id),
    );
    expect(rows[11_999]?.run).toEqual({
      agent_id: agent_id.slice('agent-'.length),
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Go.' }], otid: null, name: null }],
    });
    expect((await staged())?.uploads).toBe(0);
  });
});
