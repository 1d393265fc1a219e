import type { RevertReport } from '@nightshift/client';
import { paintOf, renderWordDiff } from '../../diff-view.ts';
import { CommandError, EXIT } from '../../failure.ts';
import { gatherList, wholeNumber } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import { plainOf } from '../../table.ts';
import { countOfNoun } from '../../words.ts';
import { listChanges } from './batch.ts';
import { blockOf, valuesOf } from './diff.ts';

interface Flags {
  readonly to?: number;
  readonly batch?: string;
  readonly agentOnly?: readonly string[];
  readonly blockOnly?: readonly string[];
  readonly force?: true;
  readonly dryRun?: true;
}

/** Adds `revert`. */
export const defineRevert: Define = (command, run) => {
  command
    .command('revert')
    .description('restore a block to an earlier revision, or all memory that a batch changed')
    .argument('[agent]', 'id of the agent, or of a block')
    .argument('[label]', 'label of the block')
    .option('--to <revision>', 'revision to restore, as a new revision', wholeNumber())
    .option('--batch <id>', 'take back the changes of this batch; later edits stay')
    .option('--agent-only <id>', 'with --batch: of this agent only; may be repeated', gatherList)
    .option('--block-only <id>', 'with --batch: of this block only; may be repeated', gatherList)
    .option('--force', 'with --batch: overwrite later edits too')
    .option('--dry-run', 'show the changes; restores nothing')
    .action(run<Flags>(revert));
};

function revert(session: Session, flags: Flags, id?: string, label?: string): Promise<number> {
  if (flags.batch !== undefined && id === undefined) return revertBatch(session, flags, flags.batch);
  if (flags.batch === undefined && id !== undefined && flags.to !== undefined)
    return revertBlock(session, flags.to, flags.dryRun === true, id, label);
  throw new CommandError(
    'Name a block and its revision (nightshift memory revert AGENT LABEL --to 3), or a batch (--batch ID).',
  );
}

async function revertBlock(
  session: Session,
  to: number,
  isDryRun: boolean,
  id: string,
  label: string | undefined,
): Promise<number> {
  const { client, config, out } = session;
  const block = await blockOf(session, id, label);
  const [value = ''] = await valuesOf(session, block.id, [to]);
  const hasColor = config.hasColor && process.stderr.isTTY;
  const view = { paint: paintOf(hasColor), hasColor, columns: out.columns };
  const lines = renderWordDiff(block.value, value, view);
  out.note(lines.length === 0 || block.value === value ? 'The texts are equal.' : lines.join('\n'));
  const name = `${plainOf(block.label)} from revision ${block.revision} to ${to}`;
  if (isDryRun) {
    const plan = { dry_run: true, block_id: block.id, from_revision: block.revision, to_revision: to, value };
    await out.record(plan, () => `would restore ${name}`);
    return EXIT.ok;
  }
  if (!(await session.confirm(`Restore ${name}?`))) {
    out.note('Nothing was restored.');
    return EXIT.ok;
  }
  const restored = await client.memory.revert(block.id, { revision: to, expected_revision: block.revision });
  await out.record(restored, () => `${plainOf(restored.label)}  revision ${restored.revision}`);
  return EXIT.ok;
}

async function revertBatch(session: Session, flags: Flags, id: string): Promise<number> {
  const { client, out } = session;
  const chosen = changesOf(session, flags, id);
  if (flags.dryRun) {
    await listChanges(session, chosen);
    out.note(
      flags.force
        ? 'All of these would be taken back, later edits included. Nothing was restored.'
        : 'These would be taken back, but blocks that others edited later stay. Nothing was restored.',
    );
    return EXIT.ok;
  }
  const count = await lengthOf(chosen);
  if (!(await session.confirm(`Take back ${countOfNoun(count, 'memory change')} of ${id}?`))) {
    out.note('Nothing was restored.');
    return EXIT.ok;
  }
  const report = await client.batches.revert(id, {
    ...(flags.force && { force: true }),
    ...(flags.agentOnly !== undefined && { agent_ids: [...flags.agentOnly] }),
    ...(flags.blockOnly !== undefined && { block_ids: [...flags.blockOnly] }),
  });
  await out.record(report, () => renderReport(report));
  for (const { block_id, label, reason } of report.refused)
    out.warn(`${plainOf(label)} (${block_id}) stays: ${REFUSALS[reason]}`);
  return report.refused.length > 0 ? EXIT.failed : EXIT.ok;
}

const REFUSALS: Readonly<Record<RevertReport['refused'][number]['reason'], string>> = {
  edited: 'others edited it later. --force overwrites their edits.',
  deleted: 'it was deleted. Create it again with nightshift api POST /v1/blocks.',
  label_taken: 'its former label is in use. Rename that block first.',
};

async function* changesOf({ client }: Session, { agentOnly, blockOnly }: Flags, id: string) {
  for await (const change of client.batches.memoryChanges(id, { limit: 100 })) {
    const isAgent = agentOnly === undefined || agentOnly.includes(change.agent_id ?? '');
    if (isAgent && (blockOnly === undefined || blockOnly.includes(change.block_id))) yield change;
  }
}

async function lengthOf(items: AsyncGenerator<unknown, void>): Promise<number> {
  let length = 0;
  while ((await items.next()).done !== true) length += 1;
  return length;
}

function renderReport(report: RevertReport): string {
  const parts = [
    countOfNoun(report.restored.length, 'block') + ' restored',
    report.deleted.length > 0 ? `${report.deleted.length} deleted` : '',
    report.forced.length > 0 ? `${report.forced.length} overwritten` : '',
    report.renamed.length > 0 ? `${report.renamed.length} renamed` : '',
    report.attached.length > 0 ? `${report.attached.length} attached again` : '',
    report.passages > 0 ? `${countOfNoun(report.passages, 'passage')} deleted` : '',
    report.refused.length > 0 ? `${report.refused.length} left unchanged` : '',
  ];
  return parts.filter((part) => part !== '').join(', ');
}
