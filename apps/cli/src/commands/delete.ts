import { CommandError } from '../failure.ts';
import { removeRecord } from '../remove.ts';
import type { Define, Session } from '../session.ts';

/** Deletes a batch, an agent, a block, a tool or a schedule. */
export const define: Define = (command, run) => {
  command.argument('<id>', 'id of a batch, an agent, a block, a tool or a schedule').action(run(deleteById));
};

type Delete = (client: Session['client'], id: string) => Promise<unknown>;

const DELETES: Readonly<Record<string, Delete>> = {
  job: (client, id) => client.batches.delete(id),
  agent: (client, id) => client.agents.delete(id),
  block: (client, id) => client.memory.delete(id),
  tool: (client, id) => client.tools.delete(id),
  schedule: (client, id) => client.schedules.delete(id),
};

async function deleteById(session: Session, _flags: object, id: string): Promise<undefined> {
  const remove = DELETES[id.split('-', 1)[0] ?? ''];
  if (remove === undefined)
    throw new CommandError(
      `${id} cannot be deleted. Give an id such as job-…, agent-…, block-…, tool-… or schedule-….`,
    );
  return removeRecord(session, id, `Delete ${id} for good?`, () => remove(session.client, id));
}
