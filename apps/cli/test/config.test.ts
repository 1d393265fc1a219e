import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readConfig } from '../src/config.ts';
import { readSettings, writeSettings } from '../src/settings-file.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-config-'));
  mkdirSync(join(dir, 'checkout/.data'), { recursive: true });
  mkdirSync(join(dir, 'checkout/deep'));
  writeFileSync(join(dir, 'checkout/.data/api-key'), 'ns_key_of_the_data_folder\n');
});
afterEach(() => {
  rmSync(dir, { recursive: true });
});

const file = (): string => join(dir, 'nightshift/config.json');
const UID = process.getuid?.() ?? 0;
const read = (
  flags: object,
  env: Readonly<Record<string, string>> = {},
  { cwd = 'checkout/deep', uid = UID }: { readonly cwd?: string; readonly uid?: number } = {},
) => readConfig(flags, { XDG_CONFIG_HOME: dir, ...env }, join(dir, cwd), uid);

test('a flag wins over the environment, it over the file, it over the data folder, it over the default', () => {
  expect(read({}).url).toEqual({ source: 'default', value: 'http://127.0.0.1:8283' });
  writeFileSync(join(dir, 'checkout/.data/api-url'), 'http://data:1\n');
  expect(read({}).url).toEqual({ source: 'data folder', value: 'http://data:1' });
  writeSettings(file(), { url: 'http://file:1' });
  expect(read({}).url).toEqual({ source: 'file', value: 'http://file:1' });
  const env = { NIGHTSHIFT_URL: 'http://environment:1/' };
  expect(read({}, env).url).toEqual({ source: 'environment', value: 'http://environment:1' });
  expect(read({ url: 'http://flag:1' }, env).url).toEqual({ source: 'flag', value: 'http://flag:1' });
});

test('the key of npm start is found in the folder and below it, and not elsewhere', () => {
  expect(read({}).apiKey).toEqual({ source: 'data folder', value: 'ns_key_of_the_data_folder' });
  expect(read({}, {}, { cwd: '.' }).apiKey).toBeUndefined();
  expect(read({}, { NIGHTSHIFT_API_KEY: 'ns_env' }).apiKey?.value).toBe('ns_env');
});

const URL_DEFAULT = { source: 'default', value: 'http://127.0.0.1:8283' };
const OF_FOLDER = { source: 'data folder', value: 'ns_key_of_the_data_folder' };

test('the address of a data folder gets no key but its own', () => {
  writeFileSync(join(dir, 'checkout/.data/api-url'), 'http://data:1\n');
  writeFileSync(join(dir, 'key'), 'ns_mine');
  for (const [flags, env] of [
    [{}, { NIGHTSHIFT_API_KEY: 'ns_mine' }],
    [{ keyFile: join(dir, 'key') }, {}],
  ])
    expect(read(flags ?? {}, env)).toMatchObject({ url: URL_DEFAULT, apiKey: { value: 'ns_mine' } });
  const same = read({}, { NIGHTSHIFT_API_KEY: OF_FOLDER.value });
  expect(same.url.value).toBe('http://data:1');
  rmSync(join(dir, 'checkout/.data/api-key'));
  expect(read({}, { NIGHTSHIFT_API_KEY: 'ns_mine' }).url).toEqual(URL_DEFAULT);
});

test('the key of a data folder goes to no address but its own', () => {
  expect(read({ url: 'http://other:1' }).apiKey).toBeUndefined();
  expect(read({ url: 'http://127.0.0.1:8283/' }).apiKey).toEqual(OF_FOLDER);
  writeFileSync(join(dir, 'checkout/.data/api-url'), 'http://data:1\n');
  expect(read({ url: 'http://127.0.0.1:8283' }).apiKey).toBeUndefined();
  expect(read({}, { NIGHTSHIFT_URL: 'http://data:1' }).apiKey).toEqual(OF_FOLDER);
});

test('the data folder of another user is left alone, unless DATA_DIR names it', () => {
  writeFileSync(join(dir, 'checkout/.data/api-url'), 'http://data:1\n');
  const stranger = { uid: UID + 1 };
  expect(read({}, {}, stranger)).toMatchObject({ url: URL_DEFAULT, apiKey: undefined });
  const named = read({}, { DATA_DIR: join(dir, 'checkout/.data') }, stranger);
  expect(named).toMatchObject({ url: { value: 'http://data:1' }, apiKey: OF_FOLDER });
});

test('the file is for its owner alone', () => {
  writeSettings(file(), { api_key: 'ns_secret' });
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  mkdirSync(dirname(file()), { recursive: true });
  writeFileSync(file(), '{ not json');
  expect(() => readSettings(file())).toThrow(/is no JSON. Mend it/);
});

test.each([{ NO_COLOR: '1' }, { TERM: 'dumb' }])('%o is without colour', (env) => {
  expect(read({}).hasColor).toBe(true);
  expect(read({}, env).hasColor).toBe(false);
  expect(read({ color: false }).hasColor).toBe(false);
});

test('an address that is none is refused with its source', () => {
  expect(() => read({}, { NIGHTSHIFT_URL: 'localhost:8283' })).toThrow(
    /'localhost:8283' \(environment\) is no address/,
  );
});
