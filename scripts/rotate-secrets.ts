import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { assertUsable, connect, explained } from '../libs/db/src/index.ts';
import {
  keepSecretsKey,
  readSecretsKeys,
  rotateSecrets,
  SECRETS_KEY_FORM,
  SECRETS_KEY_RULE,
  SECRETS_KEYS_FORM,
  SECRETS_KEYS_RULE,
} from '../libs/intake/src/index.ts';
import { createPool, providePostgres } from '../libs/services/src/index.ts';
import { endWith, given, readCommandLine } from './command-line.ts';

// Encrypts all secrets with SECRETS_KEY, or with the key of `npm start`; SECRETS_KEYS_OLD decrypts them. The database is
// that of DATABASE_URL, or the embedded one. A repeated call does the rest of an interrupted one.
readCommandLine({
  name: 'rotate-secrets',
  what: 'Encrypts all secrets with the key SECRETS_KEY, which SECRETS_KEYS_OLD decrypts. May be interrupted and repeated.',
  takes: 'seconds',
  flags: {},
});
await rotate().catch(endWith);

async function rotate(): Promise<void> {
  const [current, old] = [given('SECRETS_KEY'), given('SECRETS_KEYS_OLD')];
  if (current !== undefined && !SECRETS_KEY_FORM.test(current))
    throw new Error(`SECRETS_KEY ${SECRETS_KEY_RULE}.`);
  if (old !== undefined && !SECRETS_KEYS_FORM.test(old))
    throw new Error(`SECRETS_KEYS_OLD ${SECRETS_KEYS_RULE}.`);
  const dataDir = given('DATA_DIR') ?? '.data';
  const databaseUrl = given('DATABASE_URL');
  if (databaseUrl === undefined && !existsSync(join(dataDir, 'pg/cluster')))
    throw new Error(`There is no database in ${dataDir}. Set DATA_DIR or DATABASE_URL.`);
  // A key is never made here: the programs must have it.
  const isKept = existsSync(join(dataDir, 'secrets-key'));
  const kept = isKept ? (await keepSecretsKey(dataDir)).key : undefined;
  const keys = readSecretsKeys(current ?? kept, old);
  const postgres = await providePostgres({
    databaseUrl,
    dataDir: join(dataDir, 'pg'),
    durable: true,
    mayJoin: true,
  });
  const db = connect(createPool({ url: postgres.url, max: 1, applicationName: 'nightshift-rotate-secrets' }));
  try {
    await assertUsable(db, postgres.url);
    const rotated = await rotateSecrets(db, keys, {
      onPortion: (count) => process.stderr.write(`${count} secrets …\n`),
    });
    console.log(`${rotated} secrets have a new key. All have the key ${keys.current?.id ?? ''}.`);
  } catch (error) {
    throw explained(error, postgres.url);
  } finally {
    await db.destroy();
    await postgres.stop();
  }
}
