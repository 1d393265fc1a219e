import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  deleteAgent,
  deleteAgentSecrets,
  deleteSecret,
  inTransaction,
  listSecrets,
  lockSecretsToRotate,
  putSecrets,
  readSecretKeyIds,
  readSecretsFor,
  resealSecrets,
  type Database,
  type SealedSecret,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { createTestAgents } from '../factories.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

const project_id = DEFAULT_PROJECT_ID;

/** A secret with random bytes for its encryption. */
function aSecret(name: string, agent_id: string | null = null, key_id = '0'.repeat(16)): SealedSecret {
  return { project_id, agent_id, name, key_id, nonce: randomBytes(12), ciphertext: randomBytes(40) };
}

const put = (...secrets: SealedSecret[]): Promise<void> =>
  inTransaction(db, (trx) => putSecrets(trx, secrets));

const bySomething = (secrets: readonly SealedSecret[]): readonly SealedSecret[] =>
  secrets.toSorted((one, other) =>
    `${one.agent_id} ${one.name}` < `${other.agent_id} ${other.name}` ? -1 : 1,
  );

test('a secret is replaced at its place; only named secrets of the project and the agents are read', async () => {
  const [ann, bob] = await createTestAgents(db, 2);
  const secrets = [
    aSecret('A'),
    aSecret('B'),
    ...[ann!.id, bob!.id].flatMap((id) => [aSecret('A', id), aSecret('C', id)]),
  ];
  await put(...secrets.map((secret) => ({ ...secret, nonce: randomBytes(12) })));
  const [first] = await listSecrets(db, project_id);
  await put(...secrets);
  const listed = await listSecrets(db, project_id);
  expect(listed.map(({ name }) => name)).toEqual(['A', 'B']);
  expect(listed[0]!.created_at).toEqual(first!.created_at);
  expect(listed[0]!.updated_at.getTime()).toBeGreaterThan(first!.updated_at.getTime());

  const read = await readSecretsFor(db, project_id, ['A', 'C', 'D'], [ann!.id]);
  const wanted = secrets.filter(
    ({ name, agent_id }) => name !== 'B' && (agent_id === null || agent_id === ann!.id),
  );
  expect(bySomething(read)).toEqual(bySomething(wanted));
  expect(await readSecretsFor(db, project_id, [], [ann!.id])).toEqual([]);

  await inTransaction(db, (trx) => deleteAgentSecrets(trx, project_id, ann!.id, ['C']));
  expect(
    (await readSecretsFor(db, project_id, ['A', 'C'], [ann!.id])).map(({ name }) => name).sort(),
  ).toEqual(['A', 'C']);
  await inTransaction(db, (trx) => deleteAgent(trx, project_id, bob!.id));
  expect(await readSecretsFor(db, project_id, ['C'], [bob!.id])).toEqual([]);

  await inTransaction(db, (trx) => deleteSecret(trx, project_id, 'A'));
  await expect(inTransaction(db, (trx) => deleteSecret(trx, project_id, 'A'))).rejects.toMatchObject({
    code: 'not_found',
    message: 'There is no secret A.',
  });
  await expect(inTransaction(db, (trx) => deleteSecret(trx, project_id, 'C'))).rejects.toMatchObject({
    code: 'not_found',
  });
});

test('simultaneous replacements leave one whole secret', async () => {
  const secrets = Array.from({ length: 8 }, (_, index) => aSecret('RACE', null, String(index).repeat(16)));
  await Promise.all(secrets.map((secret) => put(secret)));
  const [kept, ...others] = await readSecretsFor(db, project_id, ['RACE'], []);
  expect(others).toEqual([]);
  expect(secrets).toContainEqual(kept);
});

test('a rotation takes secrets of other keys, and leaves their times', async () => {
  const [old, other, fresh] = ['a', 'b', 'c'].map((digit) => digit.repeat(16));
  await put(aSecret('X', null, old), aSecret('Y', null, other), aSecret('Z', null, fresh));
  expect(await readSecretKeyIds(db)).toEqual(expect.arrayContaining([old, other, fresh]));
  const before = (await listSecrets(db, project_id)).find(({ name }) => name === 'X');
  await inTransaction(db, async (trx) => {
    const rows = await lockSecretsToRotate(trx, fresh!, 100);
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['X', 'Y']));
    expect(rows.map(({ name }) => name)).not.toContain('Z');
    await resealSecrets(
      trx,
      rows.map((row) => ({ ...row, key_id: fresh!, nonce: randomBytes(12) })),
    );
  });
  expect(await readSecretKeyIds(db)).toEqual([fresh]);
  const after = (await listSecrets(db, project_id)).find(({ name }) => name === 'X');
  expect(after).toEqual({ ...before, key_id: fresh });
});
