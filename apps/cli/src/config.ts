import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { CommandError } from './failure.ts';
import { isAddress, readSettings, URL_DEFAULT } from './settings-file.ts';

/** Where a setting comes from, strongest first. */
export type Source = 'flag' | 'environment' | 'file' | 'data folder' | 'default';

export interface Setting {
  readonly value: string;
  readonly source: Source;
}

/** What a command is told by its environment. */
export interface Config {
  readonly url: Setting;
  /** Undefined: there is none anywhere. */
  readonly apiKey: Setting | undefined;
  /** File of `nightshift config set`. */
  readonly file: string;
  /** Folder of a `npm start` near the working directory; undefined if none. */
  readonly dataDir: string | undefined;
  /** URL of the database, of the API's environment; only `doctor` looks at its port. */
  readonly databaseUrl?: string | undefined;
  readonly hasColor: boolean;
  readonly editor: string;
  /** Columns of a table that no terminal limits. */
  readonly columns: number | undefined;
}

/** Flags of every command that choose a setting. */
export interface ConfigFlags {
  readonly url?: string;
  readonly keyFile?: string;
  readonly color?: boolean;
}

/**
 * Reads flags, environment, file and the data folder of `npm start`; the first that has a setting gives it. Address and key of
 * the folder belong together: neither is used beside another key or address, which would send a key to a stranger's server.
 * A folder that was found is used only if `uid` owns it; `DATA_DIR` is trusted.
 * Throws a usage error for an address or a file that cannot be used.
 */
export function readConfig(
  flags: ConfigFlags,
  env: Readonly<Record<string, string | undefined>> = process.env,
  cwd: string = process.cwd(),
  uid: number | undefined = process.getuid?.(),
): Config {
  const given = (name: string): string | undefined => env[name] || undefined;
  const file = join(given('XDG_CONFIG_HOME') ?? join(homedir(), '.config'), 'nightshift', 'config.json');
  const settings = readSettings(file);
  const dataDir = given('DATA_DIR') ?? findDataDir(cwd);
  const url = firstOf([
    ['flag', flags.url],
    ['environment', given('NIGHTSHIFT_URL')],
    ['file', settings.url],
  ]);
  const apiKey = firstOf([
    ['flag', flags.keyFile === undefined ? undefined : readFileSync(flags.keyFile, 'utf8').trim()],
    ['environment', given('NIGHTSHIFT_API_KEY')],
    ['file', settings.api_key],
  ]);
  const isTrusted = given('DATA_DIR') !== undefined || isOwnedBy(dataDir, uid);
  return {
    ...withFolder(url, apiKey, isTrusted ? dataDir : undefined),
    file,
    dataDir,
    databaseUrl: given('DATABASE_URL'),
    hasColor: flags.color !== false && given('NO_COLOR') === undefined && given('TERM') !== 'dumb',
    editor: given('VISUAL') ?? given('EDITOR') ?? 'vi',
    columns: Number(given('COLUMNS')) || undefined,
  };
}

/** Adds address and key of the data folder, if they are not those of another server. */
function withFolder(
  url: Setting | undefined,
  apiKey: Setting | undefined,
  dataDir: string | undefined,
): Pick<Config, 'url' | 'apiKey'> {
  const ofFolder = (name: string): Setting | undefined => firstOf([['data folder', readIn(dataDir, name)]]);
  const key = ofFolder('api-key');
  const address = ofFolder('api-url') ?? { source: 'default', value: URL_DEFAULT };
  const isPair =
    key !== undefined &&
    (url === undefined || bare(url.value) === bare(address.value)) &&
    (apiKey === undefined || apiKey.value === key.value);
  const chosen = url ?? (isPair ? address : { source: 'default' as const, value: URL_DEFAULT });
  return {
    url: { ...chosen, value: checkUrl(chosen.value, chosen.source) },
    apiKey: apiKey ?? (isPair ? key : undefined),
  };
}

function isOwnedBy(folder: string | undefined, uid: number | undefined): boolean {
  return folder !== undefined && (uid === undefined || statSync(folder).uid === uid);
}

function bare(url: string): string {
  return url.replace(/\/+$/, '');
}

function firstOf(candidates: readonly (readonly [Source, string | undefined])[]): Setting | undefined {
  for (const [source, value] of candidates) if (value !== undefined && value !== '') return { source, value };
  return undefined;
}

function checkUrl(value: string, source: Source): string {
  if (isAddress(value)) return bare(value);
  throw new CommandError(`'${value}' (${source}) is no address. Give one such as ${URL_DEFAULT}.`);
}

/** Finds the `.data` folder of a `npm start` in the working directory or above it. */
function findDataDir(cwd: string): string | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (['api-key', 'api-url'].some((name) => existsSync(join(folder, '.data', name))))
      return join(folder, '.data');
    if (folder === dirname(folder)) return undefined;
  }
}

function readIn(folder: string | undefined, name: string): string | undefined {
  if (folder === undefined) return undefined;
  const path = join(folder, name);
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : undefined;
}
