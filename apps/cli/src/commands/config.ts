import { Argument } from 'commander';
import type { Setting } from '../config.ts';
import { CommandError, EXIT } from '../failure.ts';
import type { Define, Session } from '../session.ts';
import { isAddress, readSettings, URL_DEFAULT, writeSettings } from '../settings-file.ts';

const NAMES = ['url', 'api_key'] as const;
type Name = (typeof NAMES)[number];

/** Shows and changes the settings of this command. */
export const define: Define = (command, run) => {
  const name = new Argument('<name>', 'url or api_key').choices(NAMES);
  command
    .command('print', { isDefault: true })
    .description('show each setting with its source')
    .action(run(print));
  command.command('get').description('print a setting').addArgument(name).action(run(get));
  command
    .command('set')
    .description('keep a setting in the file')
    .addArgument(name)
    .argument(
      '[value]',
      'value; without it, read from standard input, so that a key stays out of the history',
    )
    .action(run(set));
  command.command('unset').description('remove a setting from the file').addArgument(name).action(run(unset));
  command.command('path').description('print the path of the file').action(run(path));
};

async function print({ config, out }: Session): Promise<undefined> {
  const settings = [
    { name: 'url', ...config.url },
    { name: 'api_key', ...(config.apiKey === undefined ? NONE : redacted(config.apiKey)) },
  ];
  await out.list(settings, {
    head: ['setting', 'value', 'source'],
    row: ({ name, value, source }) => [name, value, source],
    empty: '',
  });
  out.note(
    `The file is ${config.file}. A flag wins over the environment, it over the file, it over .data of npm start.`,
  );
}

const NONE = { value: null, source: null } as const;

/** Shows the start of a key, by which its owner knows it. */
function redacted({ value, source }: Setting): Setting {
  return { value: `${value.slice(0, 6)}…`, source };
}

async function get({ config, out }: Session, _flags: object, name: string): Promise<number> {
  const setting = name === 'url' ? config.url : config.apiKey;
  if (setting === undefined) {
    out.note('There is no API key. nightshift config set api_key keeps one.');
    return EXIT.failed;
  }
  await out.record({ name, ...setting }, () => setting.value);
  return EXIT.ok;
}

async function set(
  { config, out }: Session,
  _flags: object,
  name: string,
  given?: string,
): Promise<undefined> {
  const value = (given ?? (await readInput(out))).trim();
  if (value === '')
    throw new CommandError(`The value of ${name} is empty. nightshift config unset ${name} removes it.`);
  if (name === 'url' && !isAddress(value))
    throw new CommandError(`'${value}' is no address. Give one such as ${URL_DEFAULT}.`);
  writeSettings(config.file, { ...readSettings(config.file), [name]: value });
  out.note(`${config.file} has ${name} now.`);
}

async function readInput(out: Session['out']): Promise<string> {
  if (process.stdin.isTTY) out.note('Enter the value, then Ctrl-D.');
  const parts: Buffer[] = [];
  for await (const part of process.stdin as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function unset({ config, out }: Session, _flags: object, name: string): Promise<undefined> {
  const { [name as Name]: _, ...rest } = readSettings(config.file);
  writeSettings(config.file, rest);
  out.note(`${config.file} has no ${name} now.`);
  await Promise.resolve();
}

async function path({ config, out }: Session): Promise<undefined> {
  await out.record({ path: config.file }, () => config.file);
}
