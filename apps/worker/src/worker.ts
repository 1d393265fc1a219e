import type { ToolManifest } from '@nightshift/tool-host';
import {
  connect,
  declareAnswerer,
  DEFAULT_PROJECT_ID,
  inTransaction,
  readMissingModuleTools,
  releaseAllLeases,
  type Database,
} from '@nightshift/db';
import { listen, openBell } from '@nightshift/queue';
import { checkRedis } from '@nightshift/services';
import type pg from 'pg';
import { postCallback } from './callbacks/post-callback.ts';
import type { WorkerConfig } from './config.ts';
import { createDefinitionCache } from './flow-parts/requests/definition-cache.ts';
import type { Hooks, ToolPort } from './flow-parts/deps.ts';
import { createQuickTools } from './flow-parts/calls/quick-tools.ts';
import { createSlots } from './flow-parts/slots.ts';
import { createStrangers } from './flow-parts/strangers.ts';
import { createLeaseKeeper } from './leases/keeper.ts';
import type { ProviderPort } from './provider/port.ts';
import { createHouseBell } from './queues/house-bell.ts';
import { createPumps, type Pumps } from './queues/pumps.ts';
import type { PumpLog } from './queues/pump.ts';
import { registerTools } from './register-tools.ts';
import { startSweepTimer } from './ticks/sweep-timer.ts';

/** Milliseconds that flows under way have to end before they are cut off at their next step. */
const STOP_GRACE_MS = 8_000;
/** Milliseconds that they have from then on at most; what hangs for longer (a create on its way) is left to its lease. */
const STOP_CUT_MS = 3_000;

/** What a worker is made of, beside its configuration. */
export interface WorkerParts {
  readonly pool: pg.Pool;
  /** For audits; default `pool`. */
  readonly auditPool?: pg.Pool;
  readonly provider: ProviderPort;
  readonly tools: ToolPort & { listTools(): readonly ToolManifest[] };
  readonly log: PumpLog & { queueError(error: Error): void };
  readonly hooks?: Hooks;
}

/** A worker that is at work. */
export interface Worker {
  readonly db: Database;
  /**
   * Takes no more work, lets what is under way end for `graceMs` (default 8,000) and cuts it off then, gives back every
   * lease but those of a batch on its way to the provider and of its credential. Takes a few seconds longer than the grace at most.
   */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Puts a worker to work: registers its tools, listens for the bell, sweeps. Throws `other_provider`, and does nothing,
 * where work is under way that another provider than its own answers.
 */
export async function startWorker(config: WorkerConfig, parts: WorkerParts): Promise<Worker> {
  const db = connect(parts.pool);
  await inTransaction(db, (trx) => declareAnswerer(trx, config.settings.credential, config.simulated));
  const claimant = { owner: config.owner, lease_duration_ms: config.lease_duration_ms };
  for (const { tool, file, reason } of await registerTools(db, parts.tools.listTools())) {
    parts.log.report({
      flow: 'register-tools',
      worked: true,
      alarm: true,
      outcome: 'left out',
      tool,
      file,
      reason,
    });
  }
  const held = parts.tools.listTools().map(({ name }) => name);
  const missing = await readMissingModuleTools(db, DEFAULT_PROJECT_ID, held);
  if (missing.length > 0) {
    parts.log.report({
      flow: 'register-tools',
      worked: true,
      warning: true,
      outcome: 'missing',
      tools: missing.join(', '),
      reason: 'agents have tools of which this worker has no usable module; their calls fail',
    });
  }
  const bell = await openBell({
    queueUrl: config.queue_url,
    checkRedis,
    onError: (error) => parts.log.queueError(error),
  });
  const leases = createLeaseKeeper(db, claimant);
  const houseBell = createHouseBell(bell, (kind) => pumps.kick(kind));
  const pumps: Pumps = createPumps(
    {
      db,
      ...(parts.auditPool === undefined ? {} : { audit_db: connect(parts.auditPool) }),
      provider: parts.provider,
      tools: parts.tools,
      bell: houseBell,
      callbacks: { post: (callback) => postCallback(callback, config.callbacks) },
      leases,
      claimant,
      definitions: createDefinitionCache(),
      strangers: createStrangers(),
      quickTools: createQuickTools(config.quick_tools),
      chunkSlots: createSlots(config.settings.chunks_in_flight),
      settings: config.settings,
      ...(parts.hooks === undefined ? {} : { hooks: parts.hooks }),
    },
    parts.log,
  );
  const listener = await listen({
    queueUrl: config.queue_url,
    onControl: (signal) => {
      if (!houseBell.takeEcho(signal)) pumps.kick(signal.kind);
    },
    // An echo is drained like any other: meanwhile this worker takes no further signal, and another process gets it.
    onWork: (signal) => pumps.drain(signal.kind),
    onReopened: () => pumps.look(),
    checkRedis,
    onError: (error) => parts.log.queueError(error),
  });
  const stopSweep = startSweepTimer(config.sweep_interval_ms, () => pumps.look());
  const stopHunt = startSweepTimer(config.hunt_interval_ms, () => pumps.kick('hunt'));
  pumps.look();
  return {
    db,
    async stop(graceMs = STOP_GRACE_MS) {
      stopSweep();
      stopHunt();
      const quiet = Promise.all([listener.close(), pumps.stop()]);
      await settlesWithin(quiet, graceMs);
      // Whatever is still under way is told that its leases are gone, which it survives.
      leases.close();
      await settlesWithin(quiet, Math.min(graceMs, STOP_CUT_MS));
      // Side by side: neither waits for the other's backend, which may not answer.
      await Promise.all([releaseAllLeases(db, config.owner), houseBell.close()]);
    },
  };
}

/** Waits for `work`, but no longer than `ms`. */
async function settlesWithin(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, deadline]);
  clearTimeout(timer);
}
