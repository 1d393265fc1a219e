import { CommandError } from '../failure.ts';
import { askHidden } from '../hidden-input.ts';
import { removeRecord } from '../remove.ts';
import type { Define, Session } from '../session.ts';

/** The commands of secrets. */
export const define: Define = (command, run) => {
  const NAME = ['<name>', 'name of the secret: letters, digits and _'] as const;
  command.command('ls').description('list the secrets of the project, without values').action(run(list));
  command
    .command('set')
    .description('store a secret, or replace its value')
    .argument(...NAME)
    .addHelpText(
      'after',
      '\nThe value is asked for, or read from standard input without its last line break, and never from an argument.',
    )
    .action(run(set));
  command
    .command('rm')
    .description('delete a secret')
    .argument(...NAME)
    .action(run(remove));
};

async function list({ client, out }: Session): Promise<undefined> {
  await out.list(await client.secrets.list(), {
    head: ['name', 'stored', 'key'],
    row: (secret) => [secret.name, secret.updated_at, secret.key_id],
    empty: 'There are no secrets. nightshift secrets set NAME stores one.',
  });
}

async function set(session: Session, _flags: object, name: string): Promise<undefined> {
  const value = process.stdin.isTTY
    ? await askHidden(`Value of ${name}: `, session.signal)
    : await readInput();
  if (value === '') throw new CommandError(`The value of ${name} is empty. Nothing was stored.`);
  const secret = await session.client.secrets.put(name, value);
  await session.out.record(secret, () => `${secret.name}  stored`);
}

/** Reads standard input without its last line break, which `echo` adds. */
async function readInput(): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of process.stdin as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts)
    .toString()
    .replace(/\r?\n$/, '');
}

function remove(session: Session, _flags: object, name: string): Promise<undefined> {
  return removeRecord(session, name, `Delete the secret ${name}? Tools that name it go without it.`, () =>
    session.client.secrets.delete(name),
  );
}
