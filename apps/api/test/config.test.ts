import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { keepApiKey } from '../src/api-key.ts';
import { readConfig } from '../src/config.ts';
import { BODY_BYTES_TOGETHER_MAX } from '../src/json-body.ts';

const DATABASE_URL = 'postgres://u:secret@localhost/db';

describe('the environment', () => {
  test('needs a database and has defaults for the rest', () => {
    expect(readConfig({ DATABASE_URL })).toEqual({
      host: '127.0.0.1',
      port: 8283,
      databaseUrl: DATABASE_URL,
      queueUrl: 'none',
      apiKey: null,
      secretsKeys: { current: null, old: [] },
      toolsAllowPrivate: false,
      model: 'simulator',
      logLevel: 'info',
      dataDir: '.data',
      prices: SHIPPED_PRICES,
      bodyBytesMax: BODY_BYTES_TOGETHER_MAX,
      eventStreamsMax: 1_000,
      exitWithParent: false,
    });
  });

  test('reads prices from the given file', () => {
    const PRICES_FILE = join(import.meta.dirname, '../../worker/test/config/prices.json');
    expect(readConfig({ DATABASE_URL, PRICES_FILE }).prices.version).toBe('2030-01-01');
    expect(() => readConfig({ DATABASE_URL, PRICES_FILE: '/nowhere' })).toThrow(
      'PRICES_FILE: /nowhere cannot be read.',
    );
  });

  test('selects the real model if it has a key', () => {
    expect(readConfig({ DATABASE_URL, ANTHROPIC_API_KEY: 'sk-x' }).model).toBe('anthropic');
  });

  test.each([
    [{}, /DATABASE_URL is required/],
    [{ DATABASE_URL: 'mysql://x' }, /DATABASE_URL must look like/],
    [{ DATABASE_URL, PORT: '70000' }, /PORT/],
    [{ DATABASE_URL, BODY_BYTES_TOGETHER_MAX: '0' }, /BODY_BYTES_TOGETHER_MAX/],
    [{ DATABASE_URL, NIGHTSHIFT_API_KEY: 'short' }, /NIGHTSHIFT_API_KEY must have at least 16/],
    [
      { DATABASE_URL, NIGHTSHIFT_API_KEY: 'a key with blanks in it' },
      /NIGHTSHIFT_API_KEY must be visible ASCII/,
    ],
    [
      { DATABASE_URL, NIGHTSHIFT_API_KEY: 'ns_key_of_a_mounted_secret\n' },
      /NIGHTSHIFT_API_KEY must be visible/,
    ],
    [
      { DATABASE_URL, NIGHTSHIFT_API_KEY: 'ns_schlüssel_des_nachtdienstes' },
      /NIGHTSHIFT_API_KEY must be visible/,
    ],
    [{ DATABASE_URL, SECRETS_KEY: 'secret' }, /SECRETS_KEY must be 32 bytes in base64 or hex(?!.*secret)/],
    [{ DATABASE_URL, SECRETS_KEYS_OLD: 'secret,' }, /SECRETS_KEYS_OLD must be keys of 32 bytes(?!.*secret)/],
    [{ DATABASE_URL, NIGHTSHIFT_APIKEY: 'x' }, /NIGHTSHIFT_APIKEY is not known/],
    [{ DATABASE_URL, NIGHTSHIFT_URLS: 'http://x' }, /NIGHTSHIFT_URLS is not known/],
  ])('is refused by the name of a wrong variable: %o', (env, message) => {
    expect(() => readConfig(env)).toThrow(message);
  });

  test('may hold the variables of tests and of the command', () => {
    for (const name of ['NIGHTSHIFT_USE_DOCKER', 'NIGHTSHIFT_URL'])
      expect(readConfig({ DATABASE_URL, [name]: '1' }).databaseUrl).toBe(DATABASE_URL);
  });

  test('shows no value when it is refused', () => {
    expect(() => readConfig({ DATABASE_URL: 'mysql://u:secret@h', PORT: 'x' })).toThrow(/^(?!.*secret)/);
  });
});

describe('the kept key', () => {
  let directory = '';
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nightshift-key-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  test('is created once by concurrent starts, readable by its owner only', async () => {
    const dataDir = join(directory, 'data');
    const kept = await Promise.all([1, 2, 3, 4].map(() => keepApiKey(dataDir)));
    expect(new Set(kept.map(({ key }) => key)).size).toBe(1);
    expect(kept.filter(({ isNew }) => isNew)).toHaveLength(1);
    expect(kept[0]!.key).toMatch(/^ns_[0-9A-Za-z]{43}$/);
    expect((await stat(join(dataDir, 'api-key'))).mode & 0o777).toBe(0o600);
    expect((await readFile(join(dataDir, 'api-key'), 'utf8')).trim()).toBe(kept[0]!.key);
  });

  test('is found whole or not at all by a concurrent start', async () => {
    for (let round = 0; round < 200; round++) {
      const dataDir = join(directory, `${round}`);
      const [one, other] = await Promise.all([keepApiKey(dataDir), keepApiKey(dataDir)]);
      expect(other.key).toBe(one.key);
      expect(await readdir(dataDir)).toEqual(['api-key']);
    }
  });

  test('as a broken link is an error that names it', async () => {
    await symlink('nowhere', join(directory, 'api-key'));
    await expect(keepApiKey(directory)).rejects.toThrow(
      `${join(directory, 'api-key')} exists but cannot be read`,
    );
    expect(await readdir(directory)).toEqual(['api-key']);
  });

  test.each([
    ['empty', ''],
    ['too short', 'ns_short\n'],
    ['with a blank', 'ns_key_of_two words_and_more\n'],
    ['not in ASCII', 'ns_schlüssel_des_nachtdienstes\n'],
  ])('that is %s is an error with the next step', async (_how, kept) => {
    await writeFile(join(directory, 'api-key'), kept);
    await expect(keepApiKey(directory)).rejects.toThrow(/delete it/);
  });
});
