import { addBatchFlags, batchFieldsOf, type BatchFlags } from '../batch-flags.ts';
import { renderEstimate } from '../estimate-view.ts';
import { CommandError } from '../failure.ts';
import { inputOnDisk } from '../input/open-input.ts';
import { addWorkFlags, type WorkFlags } from '../input/work-flags.ts';
import { checkWork } from '../input/work.ts';
import type { Define, Session } from '../session.ts';
import { countOf } from '../words.ts';

/** Most requests of an estimate: it takes a single body. */
const REQUESTS_MAX = 100_000;

/** Estimates the cost of a file of work. */
export const define: Define = (command, run) => {
  addBatchFlags(addWorkFlags(command)).action(run<WorkFlags & BatchFlags>(estimateFile));
};

async function estimateFile(
  { client, out }: Session,
  flags: WorkFlags & BatchFlags,
  file: string,
): Promise<undefined> {
  const { requests, body } = await checkWork(inputOnDisk(file, flags.type), flags, REQUESTS_MAX);
  if (body === undefined)
    throw new CommandError(
      `${file} has ${countOf(requests ?? 0)} requests, and an estimate takes at most ${countOf(REQUESTS_MAX)}. Estimate a part of it: head -n 10000 ${file} | nightshift estimate -`,
    );
  const estimate = await client.batches.estimate({ ...body, ...batchFieldsOf(flags) });
  await out.record(estimate, () => renderEstimate(estimate));
}
