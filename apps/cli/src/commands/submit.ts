import type { Batch, OnceOptions } from '@nightshift/client';
import { addBatchFlags, batchFieldsOf, type BatchFlags } from '../batch-flags.ts';
import { renderEstimate } from '../estimate-view.ts';
import { EXIT } from '../failure.ts';
import { exitCodeOf, follow } from '../follow.ts';
import { inputOnDisk, type Input } from '../input/open-input.ts';
import { addWorkFlags, type WorkFlags } from '../input/work-flags.ts';
import { bodyOfJson, checkWork, linesOfWork } from '../input/work.ts';
import { makeOnce } from '../once.ts';
import type { Define, Session } from '../session.ts';
import { bytesOf, countOfNoun } from '../words.ts';

interface Flags extends WorkFlags, BatchFlags {
  readonly wait?: true;
  readonly dryRun?: true;
}

const EXAMPLES = `
Examples:
  nightshift submit tasks.jsonl --wait
  gunzip -c tasks.jsonl.gz | nightshift submit - --name tasks
  nightshift submit tickets.csv --agent agent-… --custom-id ticket --template 'Which team answers {{ customer }}? {{ text }}'`;

/** Sends a file of work as a batch. */
export const define: Define = (command, run) => {
  addBatchFlags(addWorkFlags(command))
    .option('--wait', 'follow the batch to its end; exit code 1 if runs failed')
    .option('--dry-run', 'check the file, and estimate its cost; stores nothing')
    .addHelpText('after', EXAMPLES)
    .action(run<Flags>(submit));
};

async function submit(session: Session, flags: Flags, file: string): Promise<number> {
  const { out } = session;
  const input = inputOnDisk(file, flags.type);
  if (input.path === null && process.stdin.isTTY)
    out.note('Reading from the terminal; Ctrl-D ends the file.');
  if (flags.dryRun) return dryRun(session, flags, input);
  const batch = await makeOnce(session, flags, (once) => send(session, flags, input, once));
  if (!flags.wait) {
    await out.record(batch, () => batch.id);
    out.note(`Sent. nightshift watch ${batch.id} follows it.`);
    return EXIT.ok;
  }
  if (!out.isJson) await out.write(`${batch.id}\n`);
  const ended = await follow(session, batch.id);
  if (out.isJson) await out.record(ended, () => ended.id);
  return exitCodeOf(ended);
}

async function send(
  { client, out, signal }: Session,
  flags: Flags,
  input: Input,
  once: OnceOptions,
): Promise<Batch> {
  const fields = batchFieldsOf(flags);
  if (input.type === 'json') return client.batches.create({ ...(await bodyOfJson(input)), ...fields }, once);
  const batch = await client.batches.createFromFile(linesOfWork(input, flags, fields), {
    ...once,
    signal,
    onBytes: (sent, total) =>
      out.draw(`sending ${bytesOf(sent)}${total === null ? '' : ` of ${bytesOf(total)}`}`),
  });
  out.draw('');
  return batch;
}

/** Most requests of a file that is estimated: the estimate takes a single body. */
const ESTIMATED_MAX = 10_000;

async function dryRun({ client, out }: Session, flags: Flags, input: Input): Promise<number> {
  const { requests, body } = await checkWork(input, flags, ESTIMATED_MAX);
  const counted = requests === null ? 'a fleet' : countOfNoun(requests, 'request');
  if (body === undefined) {
    await out.record({ dry_run: true, requests, estimate: null }, () => `${input.name}: ${counted}`);
    out.note(
      `Nothing was stored. Each line is JSON; agents and fields are checked when the file is sent. The cost is estimated up to ${countOfNoun(ESTIMATED_MAX, 'request')}.`,
    );
    return EXIT.ok;
  }
  const estimate = await client.batches.estimate({ ...body, ...batchFieldsOf(flags) });
  await out.record(
    { dry_run: true, requests, estimate },
    () => `${input.name}: ${counted}\n\n${renderEstimate(estimate)}`,
  );
  out.note('Nothing was stored. The API checked agents and fields, and estimated the cost.');
  return EXIT.ok;
}
