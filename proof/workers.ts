/** Manages the workers of a simulation: starts, successors of dead workers, signals. */
import type { FlowDeps, FlowSettings } from '../apps/worker/src/flow-parts/deps.ts';
import { createBellPort, createCallbackPort, createProviderPort, createSimulatedRunners } from './ports.ts';
import type { Provider } from './provider.ts';
import type { Random } from './random.ts';
import { createSimPool, type SqlConnection } from './sim-pool.ts';
import type { ToolWorld } from './tools.ts';
import { LEASE_MS, startSimulatedWorker, type SimulatedWorker } from './worker.ts';
import { currentActor, type World } from './world.ts';

export type SignalKind = Parameters<SimulatedWorker['pumps']['kick']>[0];

export interface WorkersParts {
  readonly connection: SqlConnection;
  readonly provider: Provider;
  readonly tools: ToolWorld;
  readonly settings: FlowSettings;
  /** Seed of the provider's answers. */
  readonly seed: string;
  readonly random: Random;
  readonly isFaulty: () => boolean;
  readonly violation: (name: string, detail: string) => void;
  readonly worked: () => void;
  readonly sabotage?: (deps: FlowDeps) => FlowDeps;
}

export interface Workers {
  /** Passes a signal to one worker that is awake. */
  deliver(kind: SignalKind): void;
  /** Lets clocks jump, stops workers in order, and starts second workers under a taken name. */
  disturbAtRandom(): void;
  /** Number of receptions of each callback. */
  readonly received: ReadonlyMap<string, number>;
  /** Ends all workers. */
  endAll(): void;
}

const WORKERS = 3;
const KINDS: readonly SignalKind[] = [
  'accept',
  'compose',
  'submit',
  'reconcile',
  'ingest',
  'tools',
  'finish',
  'cancel',
  'webhook',
];

/**
 * Starts the workers. A dead worker is followed by another after a while, under the same name or a new one.
 */
export function startWorkers(world: World, parts: WorkersParts): Workers {
  const { random, isFaulty } = parts;
  const workers: SimulatedWorker[] = [];
  const received = new Map<string, number>();
  const pool = createSimPool(world, parts.connection, parts.violation);
  const results = random.fork('results');
  const lose = random.fork('bell').next() * 0.6;
  const bellFaults = () => (isFaulty() ? { lose, double: 0.2, delayMsMax: 3_000 } : WELL);
  let incarnations = 0;

  const deliver = (kind: SignalKind): void => {
    const awake = workers.filter(({ actor }) => actor.alive && actor.pausedUntil <= world.now());
    if (awake.length === 0) return;
    const { actor, pumps } = world.random.pick(awake);
    currentActor.run(actor, () => pumps.kick(kind));
  };
  const start = (name: string): void => {
    incarnations += 1;
    workers.push(
      startSimulatedWorker(world, name, incarnations, {
        pool,
        provider: createProviderPort(world, parts.provider, results, parts.seed),
        tools: createSimulatedRunners(world, parts.tools),
        bell: createBellPort(world, bellFaults, deliver),
        callbacks: createCallbackPort(world, () => (isFaulty() ? 0.3 : 0), received),
        settings: parts.settings,
        violation: parts.violation,
        worked: parts.worked,
        ...(parts.sabotage === undefined ? {} : { sabotage: parts.sabotage }),
      }),
    );
  };
  const nameOf = (owner: string): string => owner.split('#')[0] ?? owner;
  world.onKill((actor) => {
    world.note(`* ${actor.name} is dead`);
    if (workers.filter((worker) => worker.actor.alive).length >= WORKERS) return;
    const name = world.random.chance(0.5) ? nameOf(actor.name) : `w${incarnations + 1}`;
    world.at(world.random.int(100, 2 * LEASE_MS), `start ${name}`, () => start(name));
  });
  for (let n = 1; n <= WORKERS; n++) start(`w${n}`);

  const disturbAtRandom = (): void =>
    world.at(random.int(5_000, 60_000), 'trouble', () => {
      if (!isFaulty()) return;
      const alive = workers.filter(({ actor }) => actor.alive);
      if (alive.length > 0) disturb(random.pick(alive));
      disturbAtRandom();
    });
  const disturb = (worker: SimulatedWorker): void => {
    const { actor } = worker;
    const draw = random.next();
    // A sleeping machine's monotonic clock stands still; a wall clock is set, either way. Never both on one
    // machine.
    if (draw < 0.35 && actor.wallOffsetMs === 0) actor.clockOffsetMs += random.int(-600_000, 600_000);
    else if (draw < 0.7 && actor.clockOffsetMs === 0) actor.wallOffsetMs += random.int(-600_000, 600_000);
    else if (draw < 0.9) worker.stop();
    else start(nameOf(actor.name));
  };

  // Signals at random times; most ask for a poll, which otherwise only the sweep does.
  const signalAtRandom = (): void =>
    world.at(random.int(2_000, 6_000), 'random signal', () => {
      deliver(random.chance(0.8) ? 'poll' : random.pick(KINDS));
      signalAtRandom();
    });
  signalAtRandom();

  return {
    deliver,
    disturbAtRandom,
    received,
    endAll() {
      for (const { actor } of workers) actor.alive = false;
    },
  };
}

const WELL = { lose: 0, double: 0, delayMsMax: 20 };
