import type { BlockDiff } from '@nightshift/client';
import { paintOf, renderUnified, renderWordDiff } from '../../diff-view.ts';
import { CommandError } from '../../failure.ts';
import { wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';

interface Flags {
  readonly from?: number;
  readonly to?: number;
  readonly unified?: true;
  readonly whole?: true;
}

/** Adds `diff`. */
export const defineDiff: Define = (command, run) => {
  command
    .command('diff')
    .description('show what changed between two revisions of a block, by words')
    .argument('<agent>', 'id of the agent, or of a block')
    .argument('[label]', 'label of the block')
    .option('--from <revision>', 'earlier revision (default: the one before --to)', wholeNumber())
    .option('--to <revision>', 'later revision (default: the latest)', wholeNumber())
    .option('--unified', 'a unified diff by lines')
    .option('--whole', 'with all unchanged lines')
    .action(run<Flags>(diff));
};

async function diff(session: Session, flags: Flags, id: string, label?: string): Promise<undefined> {
  const { client, out } = session;
  const block = await blockOf(session, id, label);
  const to = flags.to ?? block.revision;
  const from = flags.from ?? to - 1;
  if (from < 1)
    throw new CommandError(
      `${block.label} has revision ${to} only: nothing to compare with. nightshift memory show writes it.`,
    );
  const change = await client.memory.diff(block.id, { from, to });
  const texts = out.isJson || flags.unified ? undefined : await valuesOf(session, block.id, [from, to]);
  await out.record(change, () => render(session, change, texts, flags));
  out.note(sizesOf(change));
}

function render(
  { out, config }: Session,
  { diff: unified }: BlockDiff,
  texts: readonly string[] | undefined,
  { whole }: Flags,
): string {
  const hasColor = config.hasColor && process.stdout.isTTY;
  const paint = paintOf(hasColor);
  if (texts === undefined) return renderUnified(unified, paint).join('\n');
  const view = { paint, hasColor, columns: out.columns, isWhole: whole === true };
  return renderWordDiff(texts[0] ?? '', texts[1] ?? '', view).join('\n');
}

/** Writes the sizes of a change in a sentence. */
export function sizesOf(
  change: Pick<BlockDiff, 'chars_before' | 'chars_after' | 'lines_added' | 'lines_removed' | 'shrunk'>,
): string {
  const { chars_before, chars_after, lines_added, lines_removed, shrunk } = change;
  const sizes = `${chars_before} → ${chars_after} characters, +${lines_added} −${lines_removed} lines`;
  return shrunk ? `${sizes}; shrunk: most of the text was removed` : sizes;
}

/** Returns the block of an id, or of an agent's label. */
export async function blockOf({ client }: Session, id: string, label: string | undefined) {
  if (id.startsWith('block-')) return client.memory.retrieve(id);
  if (label === undefined)
    throw new CommandError(`Name a block of ${id}: add its label. nightshift memory show ${id} lists them.`);
  return client.memory.byLabel(id, label);
}

/** Reads the texts of revisions. */
export async function valuesOf(
  { client }: Session,
  blockId: string,
  revisions: readonly number[],
): Promise<string[]> {
  const read = await Promise.all(revisions.map((revision) => client.memory.revision(blockId, revision)));
  return read.map(({ value }) => value);
}
