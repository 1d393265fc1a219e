import { CommandError } from '../../failure.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';

interface RewindFlags {
  readonly toMessage?: string;
  readonly before?: string;
}

/** Adds `cursors` and `rewind`. */
export const defineCursors: Define = (command, run) => {
  command
    .command('cursors')
    .description('show which messages are new, by cursor')
    .argument('<agent>', 'id of the agent')
    .action(run(cursors));
  command
    .command('rewind')
    .description('move a cursor: messages after it are new again')
    .argument('<agent>', 'id of the agent')
    .argument('<name>', 'name of the cursor')
    .option('--to-message <id>', 'messages after this one are new (default: all are)')
    .option('--before <time>', 'messages said since this time are new')
    .action(run<RewindFlags>(rewind));
};

async function cursors({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  await out.list(await client.agents.cursors(id), {
    head: ['name', 'position', 'new', 'skipped for', 'last message', 'last batch'],
    row: (cursor) => [
      cursor.name,
      cursor.position,
      `${cursor.new_messages}${cursor.has_more ? '+' : ''}`,
      cursor.skip_reason,
      cursor.last_message_date,
      cursor.last_job_id,
    ],
    empty: 'No cursors: no batch with a cursor has taken this agent.',
  });
}

async function rewind(
  { client, out }: Session,
  { toMessage, before }: RewindFlags,
  id: string,
  name: string,
): Promise<undefined> {
  if (toMessage !== undefined && before !== undefined)
    throw new CommandError('Give --to-message or --before, not both.');
  const cursor = await client.agents.rewindCursor(id, name, {
    ...(toMessage !== undefined && { to_message_id: toMessage }),
    ...(before !== undefined && { before }),
  });
  await out.record(
    cursor,
    () => `${plainOf(name)}  ${cursor.new_messages}${cursor.has_more ? '+' : ''} new messages`,
  );
}
