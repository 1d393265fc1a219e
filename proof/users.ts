/**
 * Simulates the users: they submit and cancel batches, answer calls, raise caps, resume batches and settle
 * reviews.
 */
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  requestBatchCancel,
  type Database,
} from '../libs/db/src/index.ts';
import type { Random } from './random.ts';
import type { SignalKind } from './workers.ts';
import { answerCalls, lookAround, raiseCaps, resumePaused, settleReview } from './caller.ts';
import { NO_NIGHTS, storeAppend, storeNight, type Nights } from './nights.ts';
import { storeAgents, storeBatch, type Workload } from './workload.ts';
import { PLAIN_BATCH } from './traits.ts';
import { createActor, currentActor, type World } from './world.ts';

const LOOK_MS_MIN = 2_000;
const LOOK_MS_MAX = 10_000;

export interface Users {
  /** Number of batches and appends that are not submitted yet, and of batches whose held changes are not settled. */
  openBatches(): number;
  /** Appends messages and submits fleets from now on. */
  submitNights(nights: Nights): void;
}

/** Listeners for the users' signals and for the runs of resumed batches. */
export interface UserEvents {
  readonly ring: (kind: SignalKind) => void;
  readonly resumed: (runIds: readonly string[]) => void;
}

/** Stores the agents and schedules the users' actions. */
export async function startUsers(
  world: World,
  db: Database,
  workload: Workload,
  random: Random,
  { ring, resumed }: UserEvents,
): Promise<Users> {
  const actor = createActor(world, 'user', random);
  const asUser = <T>(work: () => Promise<T>): Promise<T> => currentActor.run(actor, work);
  const agentIds = await asUser(() => storeAgents(db, workload));
  let open = 0;
  const reviews = new Map<string, { readonly accept: boolean; readonly isNight: boolean }>();
  const begin = (id: string, accepted: boolean | null, isNight: boolean): void => {
    if (accepted === null) open -= 1;
    else reviews.set(id, { accept: accepted, isNight });
  };
  const cancel = (id: string, afterMs: number | null): void => {
    if (afterMs === null) return;
    world.at(afterMs, 'user cancels', async () => {
      await asUser(() => inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, id)));
      ring('cancel');
    });
  };
  const submitNights = ({ appends, nights }: Nights): void => {
    for (const append of appends) {
      open += 1;
      world.at(append.atMs, 'user appends', async () => {
        await asUser(() => storeAppend(db, agentIds, append));
        if (append.repeatAfterMs === null) open -= 1;
        else
          world.at(append.repeatAfterMs, 'user appends again', async () => {
            await asUser(() => storeAppend(db, agentIds, append));
            open -= 1;
          });
      });
    }
    for (const night of nights) {
      open += 1;
      world.at(night.atMs, 'user submits a night', async () => {
        const id = await asUser(() => storeNight(db, night));
        begin(id, night.accepted, true);
        ring('accept');
        cancel(id, night.cancelAfterMs);
      });
    }
  };
  submitNights(workload.nights ?? NO_NIGHTS);
  for (const batch of workload.batches) {
    open += 1;
    world.at(batch.atMs, 'user submits', async () => {
      const { id } = await asUser(() => storeBatch(db, agentIds, batch));
      const { accepted } = batch.traits ?? PLAIN_BATCH;
      begin(id, accepted, false);
      ring('compose');
      cancel(id, batch.cancelAfterMs);
    });
  }
  const answered: Parameters<typeof answerCalls>[2] = new Map();
  const look = (): void =>
    world.at(random.int(LOOK_MS_MIN, LOOK_MS_MAX), 'users look', async () => {
      const { asked, capped } = await asUser(() => lookAround(db));
      if (asked && (await asUser(() => answerCalls(db, random, answered)))) ring('tools');
      if (capped) {
        await asUser(() => raiseCaps(db));
        resumed(await asUser(() => resumePaused(db)));
        ring('compose');
      }
      for (const [id, review] of reviews) {
        if (!(await asUser(() => settleReview(db, id, review)))) continue;
        reviews.delete(id);
        open -= 1;
      }
      look();
    });
  look();
  return { openBatches: () => open, submitNights };
}
