/** The users of a simulation: they submit batches, as the API has them stored, and cancel some. */
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  requestBatchCancel,
  type Database,
} from '../libs/db/src/index.ts';
import type { Random } from './random.ts';
import type { SignalKind } from './staff.ts';
import { storeAgents, storeBatch, type Workload } from './workload.ts';
import { currentActor, type Actor, type World } from './world.ts';

export interface Users {
  /** Batches that have not been submitted yet. */
  openBatches(): number;
}

/** Stores the agents and lets the users act when their time has come. `ring` is told of what they have set in motion. */
export async function inviteUsers(
  world: World,
  db: Database,
  workload: Workload,
  random: Random,
  ring: (kind: SignalKind) => void,
): Promise<Users> {
  const actor: Actor = {
    name: 'user',
    world,
    random,
    alive: true,
    pausedUntil: 0,
    clockOffsetMs: 0,
    wallOffsetMs: 0,
  };
  const asUser = <T>(work: () => Promise<T>): Promise<T> => currentActor.run(actor, work);
  const agentIds = await asUser(() => storeAgents(db, workload.agents));
  let open = workload.batches.length;
  for (const batch of workload.batches) {
    world.at(batch.atMs, 'user submits', async () => {
      const { id } = await asUser(() => storeBatch(db, agentIds, batch));
      open -= 1;
      ring('compose');
      if (batch.cancelAfterMs === null) return;
      world.at(batch.cancelAfterMs, 'user cancels', async () => {
        await asUser(() => inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, id)));
        ring('cancel');
      });
    });
  }
  return { openBatches: () => open };
}
