import type { Define, Session } from '../session.ts';

/** Pauses a batch: no further step is sent. */
export const define: Define = (command, run) => {
  command.argument('<batch>', 'id of the batch').action(run(pause));
};

async function pause({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const batch = await client.batches.pause(id);
  await out.record(batch, () => `${batch.id}  ${batch.state}`);
}
