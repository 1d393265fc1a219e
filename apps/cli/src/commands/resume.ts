import type { BatchCaps } from '@nightshift/client';
import { positiveNumber, wholeNumber } from '../parse.ts';
import type { Define, Session } from '../session.ts';

interface Flags {
  readonly maxCostUsd?: number;
  readonly maxOutputTokens?: number;
}

/** Resumes a paused batch, with a higher cap if it is given. */
export const define: Define = (command, run) => {
  command
    .argument('<batch>', 'id of the batch')
    .option('--max-cost-usd <dollars>', 'new cap of the cost', positiveNumber)
    .option('--max-output-tokens <count>', 'new cap of the tokens of all answers', wholeNumber())
    .action(run<Flags>(resume));
};

async function resume({ client, out }: Session, flags: Flags, id: string): Promise<undefined> {
  const caps: BatchCaps = {
    ...(flags.maxCostUsd !== undefined && { max_cost_usd: flags.maxCostUsd }),
    ...(flags.maxOutputTokens !== undefined && { max_output_tokens: flags.maxOutputTokens }),
  };
  if (Object.keys(caps).length > 0) await client.batches.changeCaps(id, caps);
  const batch = await client.batches.resume(id);
  await out.record(batch, () => `${batch.id}  ${batch.state}`);
}
