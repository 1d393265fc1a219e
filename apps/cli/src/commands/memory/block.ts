import { isRefusal } from '../../api-refusal.ts';
import { editText, keepText } from '../../editor.ts';
import { CommandError, EXIT } from '../../failure.ts';
import { readText } from '../../json-input.ts';
import { wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';
import { take } from '../../take.ts';

interface HistoryFlags {
  readonly limit: number;
}

interface EditFlags {
  readonly file?: string;
}

/** Adds `show`, `history` and `edit`. */
export const defineBlock: Define = (command, run) => {
  const AGENT = ['<agent>', 'id of the agent'] as const;
  const LABEL = ['<label>', 'label of the block'] as const;
  command
    .command('show')
    .description("list an agent's blocks, or write the text of one")
    .argument(...AGENT)
    .argument('[label]', LABEL[1])
    .action(run(show));
  command
    .command('history')
    .description('list the revisions of a block, latest first')
    .argument(...AGENT)
    .argument(...LABEL)
    .option('-n, --limit <count>', 'at most so many', wholeNumber(), 50)
    .action(run<HistoryFlags>(history));
  command
    .command('edit')
    .description('edit the text of a block; refused if it changed meanwhile')
    .argument(...AGENT)
    .argument(...LABEL)
    .option('--file <file>', 'the new text, or - for standard input (default: opens $EDITOR)')
    .action(run<EditFlags>(edit));
};

async function show(
  { client, out }: Session,
  _flags: object,
  agentId: string,
  label?: string,
): Promise<undefined> {
  if (label !== undefined) {
    const block = await client.memory.byLabel(agentId, label);
    await out.record(block, () => plainOf(block.value));
    return;
  }
  await out.list(client.memory.ofAgent(agentId), {
    head: ['label', 'characters', 'limit', 'revision', 'id', 'description'],
    row: (block) => [
      block.label,
      block.value.length,
      block.limit,
      block.revision,
      block.id,
      `${block.read_only ? '(read-only) ' : ''}${block.description ?? ''}`,
    ],
    empty: 'The agent has no memory blocks.',
  });
}

async function history(
  { client, out }: Session,
  { limit }: HistoryFlags,
  agentId: string,
  label: string,
): Promise<undefined> {
  const { id } = await client.memory.byLabel(agentId, label);
  const revisions = client.memory.revisions(id, { order: 'desc', limit: Math.min(limit, 100) });
  await out.list(take(revisions, limit), {
    head: ['revision', 'written', 'by', 'based on', 'resolution', 'batch'],
    row: (revision) => [
      revision.revision,
      revision.created_at,
      revision.run_id ?? 'API',
      revision.based_on,
      revision.resolution,
      revision.job_id,
    ],
    empty: 'The block has no revisions.',
  });
}

async function edit(
  session: Session,
  { file }: EditFlags,
  agentId: string,
  label: string,
): Promise<undefined> {
  const { client, config, out } = session;
  const block = await client.memory.byLabel(agentId, label);
  if (file === undefined && !process.stdin.isTTY)
    throw new CommandError('No terminal for an editor here. Add --file with the new text, or --file -.');
  const name = `${label.replaceAll(/[^\w-]/g, '_')}.txt`;
  const value = file === undefined ? await editText(config.editor, block.value, name) : await readText(file);
  if (value === block.value) {
    out.note('The text is unchanged.');
    await out.record(block, () => `${label}  revision ${block.revision}`);
    return;
  }
  const written = await client.memory
    .updateByLabel(agentId, label, { value, expected_revision: block.revision })
    .catch(async (error: unknown) => {
      if (!isRefusal(error) || file !== undefined) throw error;
      throw new CommandError(
        `${error.message} Your text is kept in ${await keepText(value, name)}: compare it with nightshift memory show ${agentId} ${label}, and send it with nightshift memory edit --file.`,
        EXIT.usage,
      );
    });
  await out.record(written, () => `${label}  revision ${written.revision}`);
}
