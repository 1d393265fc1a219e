import { Option } from 'commander';
import {
  isApiError,
  NightshiftResultsError,
  type ResultsEndDetail,
  type ResultsQuery,
} from '@nightshift/client';
import { choiceOptions, type ChoiceFlags } from '../batch-choices.ts';
import { EXIT } from '../failure.ts';
import { exitCodeOf, follow } from '../follow.ts';
import { gatherList } from '../parse.ts';
import { completePart, findPart, removePart, writePart, type PartFile } from '../results-file.ts';
import type { Define, Session } from '../session.ts';
import { countOf, countOfNoun } from '../words.ts';

interface Flags extends ChoiceFlags {
  readonly output?: string;
  readonly order: 'input' | 'finished';
  readonly include?: readonly ('messages' | 'memory_changes' | 'retries')[];
  readonly wait?: true;
}

const HELP = `
A line per run that has ended, as JSON. FILE.part grows and gets its name when it is complete; a cut download goes on
behind its last line. A part whose lines are not those that the API counts is removed, and downloaded anew. A name that
ends with .gz is packed. Exit code 0 when the download is complete; with --wait 1 if
runs failed.`;

/** Downloads the results of a batch. */
export const define: Define = (command, run) => {
  command
    .argument('<batch>', 'id of the batch')
    .option('-o, --output <file>', 'write to this file instead of standard output')
    .addOption(
      new Option('--order <order>', 'by the place of the request, or by the end of the run')
        .choices(['input', 'finished'])
        .default('input'),
    );
  for (const option of choiceOptions()) command.addOption(option);
  command
    .option(
      '--include <parts>',
      'messages, memory_changes and retries; several with commas between',
      gatherList,
    )
    .option('--wait', 'follow the batch to its end first')
    .addHelpText('after', HELP)
    .action(run<Flags>(results));
};

async function results(session: Session, flags: Flags, id: string): Promise<number> {
  const exitCode = flags.wait ? exitCodeOf(await follow(session, id)) : EXIT.ok;
  const { out } = session;
  const download = { session, id, query: queryOf(flags), isDrawn: flags.output !== undefined };
  let count = 0;
  let end: ResultsEndDetail | undefined;
  if (flags.output === undefined || flags.output === '-') {
    for await (const text of textsOf(download, undefined, onEnd)) await out.write(text);
  } else await downloadTo(flags.output, download, onEnd);
  out.draw('');
  const where = flags.output === undefined || flags.output === '-' ? '' : ` in ${flags.output}`;
  const open = end?.complete === false ? ' Runs of the batch are open: --wait waits for them.' : '';
  out.note(`${countOfNoun(count, 'run')}${where}.${open}`);
  return exitCode;

  function onEnd(detail: ResultsEndDetail): void {
    end = detail;
    count = detail.count;
  }
}

interface Download {
  readonly session: Session;
  readonly id: string;
  readonly query: ResultsQuery;
  /** Shows a count while runs come. */
  readonly isDrawn: boolean;
}

async function downloadTo(
  file: string,
  download: Download,
  onEnd: (end: ResultsEndDetail) => void,
): Promise<void> {
  const { out } = download.session;
  let part = await findPart(file);
  for (;;) {
    if (part !== undefined) out.note(`Going on behind line ${countOf(part.lines)} of ${part.path}.`);
    let end: ResultsEndDetail | undefined;
    try {
      await writePart(
        file,
        textsOf(download, part, (detail) => (end = detail)),
        part,
      );
    } catch (error) {
      const misfit = misfitOf(error);
      if (misfit === undefined) throw error;
      if (part === undefined) {
        // A later download would go on behind the same lines, and fail the same way.
        await removePart(file);
        throw error;
      }
      out.note(`${part.path} ${misfit}; downloading anew.`);
    }
    // Runs that ended behind the part's place would be missing.
    const isWhole = end !== undefined && (part === undefined || end.complete);
    if (end !== undefined && isWhole) {
      await completePart(file);
      onEnd(end);
      return;
    }
    await removePart(file);
    part = undefined;
  }
}

/** Says why a part is of no use; undefined if a later download can go on behind it. */
function misfitOf(error: unknown): string | undefined {
  if (isApiError(error, 'validation_failed', 'invalid_argument'))
    return 'is not of this batch and these flags';
  if (error instanceof NightshiftResultsError && error.code === 'count')
    return 'has other lines than the API counts';
  return undefined;
}

/** Size of a text that is written at once. Unit: characters. */
const TEXT_LENGTH = 65_536;
/** Runs between two drawn counts. */
const COUNT_EVERY = 1_000;

/** Yields the lines of the results, many at once. */
async function* textsOf(
  { session: { client, out, signal }, id, query, isDrawn }: Download,
  part: PartFile | undefined,
  onEnd: (end: ResultsEndDetail) => void,
): AsyncGenerator<string, void, undefined> {
  const runs = client.batches.results(
    id,
    { ...query, ...(part !== undefined && { after: part.cursor }) },
    { signal, ...(part !== undefined && { countBefore: part.lines }) },
  );
  let text = '';
  let count = part?.lines ?? 0;
  for (;;) {
    const next = await runs.next();
    if (next.done === true) {
      onEnd(next.value);
      break;
    }
    text += `${JSON.stringify(next.value)}\n`;
    // Beside results on the terminal a count would flicker.
    if (++count % COUNT_EVERY === 0 && isDrawn) out.draw(`${countOf(count)} runs`);
    if (text.length < TEXT_LENGTH) continue;
    yield text;
    text = '';
  }
  if (text !== '') yield text;
}

function queryOf(flags: Flags): ResultsQuery {
  return {
    order: flags.order,
    ...(flags.state !== undefined && { state: [...flags.state] }),
    ...(flags.endedReason !== undefined && { ended_reason: [...flags.endedReason] }),
    ...(flags.errorGroup !== undefined && { error_group: flags.errorGroup }),
    ...(flags.include !== undefined && { include: [...flags.include] }),
  };
}
