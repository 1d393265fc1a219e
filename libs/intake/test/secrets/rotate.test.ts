import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_PROJECT_ID, inTransaction, putSecrets, readSecretsFor } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import {
  keepSecretsKey,
  openSecrets,
  readSecretsKeys,
  rotateSecrets,
  sealSecret,
  type SecretsKeys,
} from '../../src/index.ts';

const keyOf = (byte: number): string => Buffer.alloc(32, byte).toString('base64');
const before = readSecretsKeys(keyOf(1), undefined);
const after = readSecretsKeys(keyOf(2), keyOf(1));
const NAMES = Array.from({ length: 7 }, (_, index) => `S${index}`);

let database: TestDatabase;
beforeEach(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  await store(before);
});
afterEach(() => database.close());

function store(keys: SecretsKeys, names = NAMES): Promise<void> {
  const sealed = names.map((name) =>
    sealSecret({ project_id: DEFAULT_PROJECT_ID, agent_id: null, name }, `value of ${name}`, keys),
  );
  return inTransaction(database.db, (trx) => putSecrets(trx, sealed));
}

/** Returns the values that the keys open. */
async function valuesBy(keys: SecretsKeys): Promise<unknown> {
  const rows = await readSecretsFor(database.db, DEFAULT_PROJECT_ID, NAMES, []);
  return Object.fromEntries(openSecrets(rows, keys)('', NAMES));
}

const ALL = Object.fromEntries(NAMES.map((name) => [name, `value of ${name}`]));

async function timesOf(): Promise<unknown> {
  const { rows } = await database.pool.query('select name, created_at, updated_at from secret order by name');
  return rows;
}

test('a rotation that ends half way leaves every value readable; the next one does the rest', async () => {
  const times = await timesOf();
  const killed = rotateSecrets(database.db, after, {
    portion: 3,
    onPortion: () => {
      throw new Error('killed');
    },
  });
  await expect(killed).rejects.toThrow('killed');
  const { rows } = await database.pool.query(
    'select key_id, count(*)::int from secret group by 1 order by 2',
  );
  expect(rows).toEqual([
    { key_id: after.current!.id, count: 3 },
    { key_id: before.current!.id, count: 4 },
  ]);
  expect(await valuesBy(after)).toEqual(ALL);

  const portions: number[] = [];
  const onPortion = (rotated: number): void => void portions.push(rotated);
  expect(await rotateSecrets(database.db, after, { portion: 3, onPortion })).toBe(4);
  expect(portions).toEqual([3, 4]);
  expect(await rotateSecrets(database.db, after)).toBe(0);
  expect(await valuesBy(readSecretsKeys(keyOf(2), undefined))).toEqual(ALL);
  expect(await timesOf()).toEqual(times);
});

test('two rotations at once both end, and each value is readable', async () => {
  const counts = await Promise.all([1, 2].map(() => rotateSecrets(database.db, after, { portion: 2 })));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(NAMES.length);
  expect(await valuesBy(readSecretsKeys(keyOf(2), undefined))).toEqual(ALL);
});

test('a rotation without a needed key changes nothing and names the id of the key', async () => {
  await store(readSecretsKeys(keyOf(3), undefined), ['S0']);
  await expect(rotateSecrets(database.db, after)).rejects.toMatchObject({
    code: 'secrets_key_missing',
    message: expect.stringContaining(readSecretsKeys(keyOf(3), undefined).current!.id),
  });
  const { rows } = await database.pool.query('select from secret where key_id = $1', [after.current!.id]);
  expect(rows).toEqual([]);
  await expect(rotateSecrets(database.db, readSecretsKeys(undefined, keyOf(1)))).rejects.toMatchObject({
    code: 'secrets_key_missing',
  });
});

test('a kept key is made once, is readable by its owner alone, and is never replaced', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-secrets-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  const kept = await Promise.all([1, 2, 3].map(() => keepSecretsKey(dir)));
  expect(new Set(kept.map(({ key }) => key)).size).toBe(1);
  const path = join(dir, 'secrets-key');
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(readSecretsKeys(kept[0]!.key, undefined).current!.key.symmetricKeySize).toBe(32);
  await writeFile(path, 'half a key');
  await expect(keepSecretsKey(dir)).rejects.toThrow(`${path} holds no key of 32 bytes`);
  expect(await readFile(path, 'utf8')).toBe('half a key');
});
