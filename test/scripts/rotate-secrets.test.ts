import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_PROJECT_ID, inTransaction, putSecrets, readSecretsFor } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { openSecrets, readSecretsKeys, sealSecret } from '@nightshift/intake';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

let database: TestDatabase;
let dir: string;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  dir = mkdtempSync(join(tmpdir(), 'nightshift-rotate-'));
});
afterAll(async () => {
  await database.close();
  rmSync(dir, { recursive: true });
});

const keyOf = (byte: number): string => Buffer.alloc(32, byte).toString('base64');
const idOf = (byte: number): string => readSecretsKeys(keyOf(byte), undefined).current?.id ?? '';

function rotate(env: Readonly<Record<string, string>>) {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/rotate-secrets.ts'], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { PATH, NODE_COMPILE_CACHE, DATABASE_URL: database.url, DATA_DIR: dir, ...env },
  });
  return { status, stdout, stderr };
}

test('all secrets get the new key; a repeated call finds nothing to do', async () => {
  const place = { project_id: DEFAULT_PROJECT_ID, agent_id: null };
  const sealed = ['A', 'B', 'C'].map((name) =>
    sealSecret({ ...place, name }, `value of ${name}`, readSecretsKeys(keyOf(1), undefined)),
  );
  await inTransaction(database.db, (trx) => putSecrets(trx, sealed));

  expect(rotate({})).toMatchObject({ status: 1, stderr: 'Set SECRETS_KEY to the new key.\n' });
  expect(rotate({ SECRETS_KEY: 'short' })).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^SECRETS_KEY must be 32 bytes/),
  });
  expect(rotate({ SECRETS_KEY: keyOf(2) })).toMatchObject({
    status: 1,
    stderr: `This process has no secrets key with the id ${idOf(1)}: add it to SECRETS_KEYS_OLD.\n`,
  });
  const env = { SECRETS_KEY: keyOf(2), SECRETS_KEYS_OLD: `${keyOf(3)},${keyOf(1)}` };
  const all = `All have the key ${idOf(2)}.\n`;
  expect(rotate(env)).toMatchObject({ status: 0, stdout: `3 secrets have a new key. ${all}` });
  expect(rotate(env)).toMatchObject({ status: 0, stdout: `0 secrets have a new key. ${all}` });

  const rows = await readSecretsFor(database.db, DEFAULT_PROJECT_ID, ['A', 'B', 'C'], []);
  const open = openSecrets(rows, readSecretsKeys(keyOf(2), undefined));
  expect(open('', ['A', 'B', 'C']).get('B')).toBe('value of B');
});
