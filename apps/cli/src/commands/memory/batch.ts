import type { MemoryChange } from '@nightshift/client';
import { paintOf, renderUnified } from '../../diff-view.ts';
import { wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';
import { take } from '../../take.ts';
import { sizesOf } from './diff.ts';

interface Flags {
  readonly agent?: string;
  readonly block?: string;
  readonly shrunk?: true;
  readonly diff?: true;
  readonly limit: number;
}

/** Adds `changes`. */
export const defineBatch: Define = (command, run) => {
  command
    .command('changes')
    .description('list the memory changes of a batch that are in force')
    .argument('<batch>', 'id of the batch')
    .option('--agent <id>', 'of this agent only')
    .option('--block <id>', 'of this block only')
    .option('--shrunk', 'that removed most of a text only')
    .option('--diff', 'with a unified diff each')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 100)
    .action(run<Flags>(changes));
};

async function changes(session: Session, { diff, limit, ...flags }: Flags, id: string): Promise<undefined> {
  const { client, out } = session;
  const found = take(
    client.batches.memoryChanges(id, {
      limit: Math.min(limit, 100),
      ...(flags.agent !== undefined && { agent_id: flags.agent }),
      ...(flags.block !== undefined && { block_id: flags.block }),
      ...(flags.shrunk && { shrunk: true }),
    }),
    limit,
  );
  if (diff && !out.isJson) {
    const paint = paintOf(session.config.hasColor && process.stdout.isTTY);
    for await (const change of found)
      await out.write(
        `${paint('bold', `${plainOf(change.label)}  ${change.agent_id ?? change.block_id}`)}  ${sizesOf(change)}\n${renderUnified(change.diff, paint).join('\n')}\n\n`,
      );
    return;
  }
  await listChanges(session, found);
}

/** Lists memory changes. */
export async function listChanges(
  { out }: Session,
  found: AsyncIterable<MemoryChange> | Iterable<MemoryChange>,
): Promise<void> {
  await out.list(found, {
    head: ['agent', 'label', 'revision', 'characters', 'lines', 'note', 'block'],
    row: (change) => [
      change.agent_id,
      change.label,
      `${change.from_revision ?? '-'} → ${change.to_revision}`,
      `${change.chars_before} → ${change.chars_after}`,
      `+${change.lines_added} −${change.lines_removed}`,
      [change.shrunk ? 'shrunk' : '', change.resolution === 'clean' ? '' : (change.resolution ?? '')]
        .filter((text) => text !== '')
        .join(', '),
      change.block_id,
    ],
    empty: 'No memory changes in force. nightshift memory review shows those that are held.',
  });
}
