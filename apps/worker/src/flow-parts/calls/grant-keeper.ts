import {
  DEFAULT_PROJECT_ID,
  grantCalls,
  inTransaction,
  lockTools,
  readLimitedTools,
  type Claimant,
  type Database,
} from '@nightshift/db';
import type { Grants } from '../../tools/grants.ts';

/** Asks the database for the grants of this worker: one request for all limited tools, at most one a second. */
export interface GrantKeeper {
  /** Reads which tools have limits, unless that was read less than a second ago. Throws: the database's error. */
  refresh(): Promise<void>;
  /** Begins to ask, until no call of a limited tool waits or is under way. A tool that was not asked for is at once. */
  ask(): void;
  /** Ends the requests, and gives back the places of calls that have ended. */
  close(): Promise<void>;
  /** Ends the requests without giving anything back. */
  abandon(): void;
}

/** Time between two requests, and maximum age of the list of limited tools. Unit: milliseconds. */
const INTERVAL_MS = 1_000;

export interface GrantKeeperParts {
  readonly db: Database;
  readonly claimant: Claimant;
  readonly grants: Grants;
  readonly onError: (error: unknown) => void;
  /** Default: {@link INTERVAL_MS}. Unit: milliseconds. */
  readonly interval_ms?: number;
}

/**
 * Creates a keeper that asks nothing before the first call of a limited tool.
 * Calls start for half the duration of a grant after its request. Calls under way end with the lease of their chunk, which
 * is given up earlier than a grant of the same duration lapses.
 */
export function createGrantKeeper(parts: GrantKeeperParts): GrantKeeper {
  const { db, claimant, grants, onError, interval_ms = INTERVAL_MS } = parts;
  const pauseMs = Math.min(interval_ms, claimant.lease_duration_ms / 6);
  let reading: Promise<void> = Promise.resolve();
  let readMs = -Infinity;
  let asking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function request(): Promise<void> {
    const demand = grants.begin();
    try {
      const granted = await inTransaction(db, async (trx) => {
        await lockTools(
          trx,
          demand.map(({ tool_id }) => tool_id),
        );
        return grantCalls(trx, claimant, demand);
      });
      grants.end({ grants: granted, trustMs: claimant.lease_duration_ms / 2 });
    } catch (error) {
      grants.end(null);
      onError(error);
    }
  }

  function ask(): void {
    const need = grants.need();
    if (isClosed || asking !== undefined || need === 'none') return;
    if (timer !== undefined && need !== 'first') return;
    clearTimeout(timer);
    asking = request().then(() => {
      asking = undefined;
      timer = undefined;
      if (isClosed || grants.need() === 'none') return;
      timer = setTimeout(() => {
        timer = undefined;
        ask();
      }, pauseMs).unref();
    });
  }

  function abandon(): void {
    isClosed = true;
    clearTimeout(timer);
  }

  return {
    refresh() {
      if (performance.now() - readMs < interval_ms) return reading;
      readMs = performance.now();
      reading = readLimitedTools(db, DEFAULT_PROJECT_ID).then(
        (tools) => grants.setLimited(tools),
        (error: unknown) => {
          readMs = -Infinity;
          throw error;
        },
      );
      return reading;
    },
    ask,
    abandon,
    async close() {
      abandon();
      await asking;
      if (grants.need() !== 'none') await request();
    },
  };
}
