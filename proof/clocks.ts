/** Simulates the clocks of the database and of the provider, which may be off, drift and jump. */
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** Errors of the two clocks. Jumps happen during a create. */
export interface ClockTemper {
  /** Milliseconds by which the provider's clock is ahead of the database's at the start. */
  readonly offsetMs: number;
  /** Milliseconds that the provider's clock gains per second. */
  readonly driftMs: number;
  /** Chance of a jump during a create. */
  readonly databaseJumps: number;
  readonly providerJumps: number;
  /** The provider's answers have no `Date` header. */
  readonly silent: boolean;
}

/** Clocks without errors. */
export const AGREEING: ClockTemper = {
  offsetMs: 0,
  driftMs: 0,
  databaseJumps: 0,
  providerJumps: 0,
  silent: false,
};

export interface Clocks {
  readonly databaseNow: () => number;
  readonly providerNow: () => number;
  /** The `Date` header of an answer now; null when there is none. */
  readonly dateHeader: () => string | null;
  /**
   * May jump during a create: the database's clock forward beyond a quarantine, the provider's either way.
   */
  mayJump(withinMs: number): void;
  /** Ends all jumps. */
  heal(): void;
}

/** Largest sum of a clock's jumps, in milliseconds: beyond the search's margin, the engine stops sending. */
const DATABASE_MS_MAX = 600_000;
const PROVIDER_MS_MAX = 180_000;

const MINUTES_15 = 900_000;

/** Draws a seed's clock errors: offsets in most seeds, jumps in some. */
export function drawClockTemper(random: Random): ClockTemper {
  const apart = random.chance(0.7);
  const drifts = random.chance(0.3);
  const sometimes = (most: number): number => (random.chance(0.4) ? most * random.next() : 0);
  const offsetMs = apart ? random.int(-MINUTES_15, MINUTES_15) : 0;
  const silent = !apart && random.chance(0.2);
  return {
    offsetMs,
    driftMs: drifts ? random.int(-10, 10) : 0,
    databaseJumps: silent ? 0 : sometimes(0.4),
    providerJumps: sometimes(0.3),
    silent,
  };
}

/** Creates the clocks. `leastJumpMs`: minimum length of a jump of the database's clock. */
export function createClocks(world: World, random: Random, temper: ClockTemper, leastJumpMs: number): Clocks {
  const beganAt = world.now();
  const jumped = { database: 0, provider: 0 };
  let isWell = false;
  const drift = (): number => ((world.now() - beganAt) / 1000) * temper.driftMs;
  const providerNow = (): number => world.now() + temper.offsetMs + drift() + jumped.provider;
  return {
    databaseNow: () => world.now() + jumped.database,
    providerNow,
    dateHeader: () => (temper.silent ? null : new Date(providerNow()).toUTCString()),
    heal() {
      isWell = true;
    },
    mayJump(withinMs) {
      if (isWell) return;
      if (random.chance(temper.databaseJumps)) {
        world.at(random.int(1, withinMs), 'the clock of the database jumps', () => {
          const ms = random.int(leastJumpMs, 4 * leastJumpMs);
          if (!isWell && jumped.database + ms <= DATABASE_MS_MAX) jumped.database += ms;
        });
      }
      if (random.chance(temper.providerJumps)) {
        world.at(random.int(1, withinMs), 'the clock of the provider jumps', () => {
          const ms = random.int(-PROVIDER_MS_MAX, PROVIDER_MS_MAX);
          if (!isWell && Math.abs(jumped.provider + ms) <= PROVIDER_MS_MAX) jumped.provider += ms;
        });
      }
    },
  };
}
