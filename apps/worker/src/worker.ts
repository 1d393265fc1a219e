import type { ToolKind } from '@nightshift/agent-core';
import type { ToolManifest } from '@nightshift/tool-host';
import {
  commitHeartbeat,
  connect,
  declareAnswerer,
  DEFAULT_PROJECT_ID,
  inTransaction,
  readMissingModuleTools,
  releaseAllLeases,
  removeWorker,
  type Database,
} from '@nightshift/db';
import { createDefinitionCache } from '@nightshift/intake';
import { listen, openBell } from '@nightshift/queue';
import { checkRedis } from '@nightshift/services';
import type pg from 'pg';
import { postCallback } from './callbacks/post-callback.ts';
import type { WorkerConfig } from './config.ts';
import { describeWorker } from './describe-worker.ts';
import type { Hooks } from './flow-parts/deps.ts';
import { createGrantKeeper } from './flow-parts/calls/grant-keeper.ts';
import { createQuickTools } from './flow-parts/calls/quick-tools.ts';
import { createSlots } from './flow-parts/slots.ts';
import { createStrangers } from './flow-parts/strangers.ts';
import { createWorkBook } from './flow-parts/work-statistics.ts';
import { createLeaseKeeper } from './leases/keeper.ts';
import type { ProviderPort } from './provider/port.ts';
import { createWorkerBell } from './queues/worker-bell.ts';
import { createPumps, type Pumps } from './queues/pumps.ts';
import type { PumpLog } from './queues/pump.ts';
import { registerTools } from './register-tools.ts';
import { startHeartbeat } from './ticks/heartbeat.ts';
import { createPlaces } from './tools/places.ts';
import { createToolRunners, type ToolRunner } from './tools/runner.ts';
import { startSweepTimer } from './ticks/sweep-timer.ts';

/** Grace period for running flows before they are cut off at their next step. Unit: ms. */
const STOP_GRACE_MS = 8_000;
/** Further time to end after the cut. A flow that hangs longer (a create under way) keeps its lease. Unit: ms. */
const STOP_CUT_MS = 3_000;

/** Chunks of calls that are read or written at a time. */
const BUSY_CALL_CHUNKS_MAX = 2;

/** The effects that a worker needs besides its configuration. */
export interface WorkerParts {
  readonly pool: pg.Pool;
  /** Pool for audits. Default: `pool`. */
  readonly auditPool?: pg.Pool;
  readonly provider: ProviderPort;
  /** The runners of tools that this worker has. */
  readonly runners: Readonly<Partial<Record<ToolKind, ToolRunner>>>;
  /** Returns the operator's modules. */
  readonly listTools: () => readonly ToolManifest[];
  readonly log: PumpLog & { queueError(error: Error): void };
  readonly hooks?: Hooks;
}

/** A running worker. */
export interface Worker {
  readonly db: Database;
  /** Resolves once a drain was requested and the running flows have ended: no lease is taken any more. */
  readonly drained: Promise<void>;
  /**
   * Stops taking work, waits up to `graceMs` for running flows, cuts them off, and releases all leases, except those of a
   * provider batch under submission and its credential. Takes at most a few seconds longer than the grace.
   * Default: 8,000 ms.
   */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Starts a worker: registers its tools, listens for signals, sweeps.
 * Throws: `other_provider`, and changes nothing, when work is under way at another provider.
 */
export async function startWorker(config: WorkerConfig, parts: WorkerParts): Promise<Worker> {
  const db = connect(parts.pool);
  await inTransaction(db, (trx) => declareAnswerer(trx, config.settings.credential, config.simulated));
  const claimant = { owner: config.owner, lease_duration_ms: config.lease_duration_ms };
  const unusable = await registerTools(db, parts.listTools());
  for (const { tool, file, reason } of unusable) {
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
  const held = parts.listTools().map(({ name }) => name);
  const missing = await readMissingModuleTools(db, DEFAULT_PROJECT_ID, held);
  if (missing.length > 0) {
    parts.log.report({
      flow: 'register-tools',
      worked: true,
      warning: true,
      outcome: 'missing',
      tools: missing.join(', '),
      reason: 'this worker has no usable module for these tools of agents; calls to them fail',
    });
  }
  const bell = await openBell({
    queueUrl: config.queue_url,
    checkRedis,
    onError: (error) => parts.log.queueError(error),
  });
  const leases = createLeaseKeeper(db, claimant);
  const workerBell = createWorkerBell(bell, (kind) => pumps.kick(kind));
  const places = createPlaces();
  const grantKeeper = createGrantKeeper({
    ...{ db, claimant, grants: places.grants },
    onError: (error) => parts.log.failure('grant-calls', error),
  });
  const pumps: Pumps = createPumps(
    {
      db,
      ...(parts.auditPool === undefined ? {} : { audit_db: connect(parts.auditPool) }),
      provider: parts.provider,
      tools: createToolRunners(parts.runners, places),
      grantKeeper,
      callSlots: createSlots(BUSY_CALL_CHUNKS_MAX),
      bell: workerBell,
      callbacks: { post: (callback) => postCallback(callback, config.callbacks) },
      leases,
      claimant,
      definitions: createDefinitionCache(),
      strangers: createStrangers(),
      work: createWorkBook(),
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
      if (!workerBell.takeOwnSignal(signal)) pumps.kick(signal.kind);
    },
    // An own signal is drained too: meanwhile the queue gives further signals to other processes.
    onWork: (signal) => pumps.drain(signal.kind),
    onReopened: () => pumps.look(),
    checkRedis,
    onError: (error) => parts.log.queueError(error),
  });
  const stopSweep = startSweepTimer(config.sweep_interval_ms, () => pumps.look());
  const stopHunt = startSweepTimer(config.hunt_interval_ms, () => pumps.kick('hunt'));
  pumps.look();
  const usable = parts.listTools().filter(({ name }) => unusable.every(({ tool }) => tool !== name));
  const self = describeWorker(config, usable);
  let ending: Promise<unknown> | undefined;
  const takeNoMore = (): Promise<unknown> => {
    stopSweep();
    stopHunt();
    places.grants.close();
    return (ending ??= Promise.all([listener.close(), pumps.stop()]));
  };
  const drained = Promise.withResolvers<void>();
  const drain = (): void => {
    if (ending !== undefined) return;
    parts.log.report({ flow: 'drain', worked: true, outcome: 'requested' });
    void takeNoMore()
      .catch((error: unknown) => parts.log.failure('drain', error))
      .then(() => drained.resolve());
  };
  const stopHeartbeat = startHeartbeat(
    async () => {
      if (await commitHeartbeat(db, DEFAULT_PROJECT_ID, self)) drain();
    },
    (error) => parts.log.failure('heartbeat', error),
  );
  return {
    db,
    drained: drained.promise,
    async stop(graceMs = STOP_GRACE_MS) {
      const quiet = takeNoMore();
      const gone = stopHeartbeat()
        .then(() => removeWorker(db, config.owner))
        .catch(() => undefined);
      await settlesWithin(quiet, graceMs);
      // Aborts the lease signals of flows that still run; they end at their next step.
      leases.close();
      await settlesWithin(quiet, Math.min(graceMs, STOP_CUT_MS));
      // In parallel: neither waits for the other's backend, which may not answer.
      await Promise.all([
        releaseAllLeases(db, config.owner),
        workerBell.close(),
        settlesWithin(grantKeeper.close(), STOP_CUT_MS),
        settlesWithin(gone, STOP_CUT_MS),
      ]);
    },
  };
}

/** Waits for `work`, at most `ms`. */
async function settlesWithin(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, deadline]);
  clearTimeout(timer);
}
