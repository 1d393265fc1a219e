import type pg from 'pg';
import type { BellPort, CallbackPort, FlowDeps, FlowSettings } from '../apps/worker/src/flow-parts/deps.ts';
import { createGrantKeeper } from '../apps/worker/src/flow-parts/calls/grant-keeper.ts';
import {
  createQuickTools,
  QUICK_TOOLS_POLICY_DEFAULT,
  type QuickToolsPolicy,
} from '../apps/worker/src/flow-parts/calls/quick-tools.ts';
import { createSlots } from '../apps/worker/src/flow-parts/slots.ts';
import { createStrangers } from '../apps/worker/src/flow-parts/strangers.ts';
import { createWorkBook } from '../apps/worker/src/flow-parts/work-statistics.ts';
import { createLeaseKeeper } from '../apps/worker/src/leases/keeper.ts';
import type { ProviderPort } from '../apps/worker/src/provider/port.ts';
import { createPumps, type Pumps } from '../apps/worker/src/queues/pumps.ts';
import type { ToolRunners } from '../apps/worker/src/tools/runner.ts';
import { startSweepTimer } from '../apps/worker/src/ticks/sweep-timer.ts';
import { connect, releaseAllLeases } from '../libs/db/src/index.ts';
import { createDefinitionCache } from '../libs/intake/src/index.ts';
import { isError, SHIPPED_PRICES } from '../libs/agent-core/src/index.ts';
import type { Random } from './random.ts';
import { createActor, CutConnection, currentActor, type Actor, type World } from './world.ts';

/**
 * Times of the simulated workers, in virtual milliseconds. They are ordered like the defaults in production.
 */
export const LEASE_MS = 9_000;
const SWEEP_MS = 30_000;
const HUNT_MS = 30_000;
const STOP_GRACE_MS = 4_000;
export const CREATE_TIMEOUT_MS = 8_000;
export const QUARANTINE_MS = 24_000;

export const SETTINGS: FlowSettings = {
  credential: 'default',
  body_dir: '/simulated',
  requests_max: 4,
  body_bytes_max: 1_000_000,
  agents_per_portion: 2,
  gather_window_ms: 500,
  create_timeout_ms: CREATE_TIMEOUT_MS,
  results_idle_timeout_ms: 6_000,
  results_bytes_per_second_min: 0,
  results_rate_window_ms: 60_000,
  ingest_lanes: 2,
  chunk_lines: 2,
  chunks_in_flight: 2,
  line_bytes_max: 1_000_000,
  alone_delay_ms_max: 0,
  streams_max: 3,
  retry: {
    attempts_max: 4,
    retry_delay_ms: 1_000,
    retry_delay_ms_max: 10_000,
    outage_delay_ms: 5_000,
    outage_ms_max: 60_000,
  },
  poll: { poll_interval_ms: 4_000, poll_interval_ms_max: 10_000, missing_grace_ms: 30_000 },
  reconcile: {
    clock_skew_ms: 10_000,
    clock_margin_ms: 1_800_000,
    quarantine_ms: QUARANTINE_MS,
    search_interval_ms: 6_000,
    searches_min: 2,
  },
  refusal: { backoff_ms: 1_000, backoff_ms_max: 10_000, pause_ms: 8_000, refusals_max: 12 },
  breaker: { failures_min: 3, rest_ms: 2_000, rest_ms_max: 8_000 },
  retention_days: null,
  audit_interval_ms: 3_600_000,
  workspace_is_ours: false,
  prices: SHIPPED_PRICES,
};

/** Tools count as quick after two calls, so that both ways are tested. */
const QUICK_TOOLS: QuickToolsPolicy = { ...QUICK_TOOLS_POLICY_DEFAULT, calls_min: 2, mean_ms_max: 10 };

/** Draws the sizes of a seed: batches and chunks of one or of many. */
export function drawSizes(random: Random): Partial<FlowSettings> {
  return {
    requests_max: random.int(1, 6),
    gather_window_ms: random.pick([0, 500, 2_000]),
    chunk_lines: random.int(1, 4),
    chunks_in_flight: random.int(1, 3),
  };
}

/** In some seeds polls follow turnarounds, which are shorter here. */
export function drawLooks(random: Random): Partial<FlowSettings> {
  if (!random.chance(0.3)) return {};
  const looks = { likely: 0.1, delay_ms_min: 500, delay_ms_max: 10_000, calls_per_minute: 60 };
  return { poll: { ...SETTINGS.poll, looks } };
}

export interface WorkerParts {
  readonly pool: object;
  readonly provider: ProviderPort;
  readonly tools: ToolRunners;
  readonly bell: BellPort;
  readonly callbacks: CallbackPort;
  readonly settings: FlowSettings;
  readonly violation: (name: string, detail: string) => void;
  /** Called after a flow has done work. */
  readonly worked: () => void;
  /** Replaces a part, for a mutant. */
  readonly sabotage?: (deps: FlowDeps) => FlowDeps;
}

export interface SimulatedWorker {
  readonly actor: Actor;
  readonly pumps: Pumps;
  /** Stops in order, as after SIGTERM, and then ends. */
  stop(): void;
}

/**
 * Starts a worker as production does. It holds leases under its name and a mark of the process, so an earlier
 * worker's leases of the same name are not its own.
 */
export function startSimulatedWorker(
  world: World,
  name: string,
  incarnation: number,
  parts: WorkerParts,
): SimulatedWorker {
  const owner = `${name}#${incarnation}`;
  const actor = createActor(world, owner, world.random.fork(owner));
  return currentActor.run(actor, () => {
    const db = connect(parts.pool as pg.Pool);
    const claimant = { owner, lease_duration_ms: LEASE_MS };
    const leases = createLeaseKeeper(db, claimant);
    const grantKeeper = createGrantKeeper({
      ...{ db, claimant, grants: parts.tools.places.grants },
      onError: (error) => world.note(`${actor.name} = grants fail: ${String(error)}`),
    });
    const whole: FlowDeps = {
      db,
      provider: parts.provider,
      tools: parts.tools,
      grantKeeper,
      callSlots: createSlots(2),
      bell: parts.bell,
      callbacks: parts.callbacks,
      leases,
      claimant,
      definitions: createDefinitionCache(),
      strangers: createStrangers(),
      work: createWorkBook({ now: world.now }),
      quickTools: createQuickTools(QUICK_TOOLS),
      chunkSlots: createSlots(parts.settings.chunks_in_flight),
      settings: parts.settings,
      hooks: (point) => world.hook(point),
    };
    const deps = parts.sabotage?.(whole) ?? whole;
    const pumps = createPumps(deps, {
      report({ flow, outcome, taken_over_from }) {
        const what = typeof outcome === 'string' ? ` ${outcome}` : '';
        const from = typeof taken_over_from === 'string' ? `, taken over from ${taken_over_from}` : '';
        world.note(`${actor.name} = ${flow}${what}${from}`);
        parts.worked();
      },
      failure(flow, error) {
        world.note(`${actor.name} = ${flow} fails: ${String(error)}`);
        if (!isExpected(error))
          parts.violation(
            'flow_failed',
            `${flow}: ${error instanceof Error ? error.message : String(error)}`,
          );
      },
    });
    const stopSweep = startSweepTimer(SWEEP_MS, () => pumps.look());
    const stopHunt = startSweepTimer(HUNT_MS, () => pumps.kick('hunt'));
    pumps.look();
    const stop = async (): Promise<void> => {
      stopSweep();
      stopHunt();
      await Promise.race([pumps.stop(), new Promise((resolve) => setTimeout(resolve, STOP_GRACE_MS))]);
      leases.close();
      await grantKeeper.close();
      await releaseAllLeases(db, owner);
    };
    // A worker that cannot stop in order ends too; its supervisor starts another.
    const end = (): void => world.kill(actor);
    return { actor, pumps, stop: () => currentActor.run(actor, () => void stop().then(end, end)) };
  });
}

function isExpected(error: unknown): boolean {
  return error instanceof CutConnection || isError(error, 'fenced');
}
