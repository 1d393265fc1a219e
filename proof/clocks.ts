/** The clocks of the database and of the provider: neither shows the world's time, and both may be set. */
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** How the two clocks go wrong. Jumps happen while a create is on its way. */
export interface ClockTemper {
  /** How far the provider's clock is ahead of the database's at first. */
  readonly offsetMs: number;
  /** Milliseconds that the provider's clock gains in a second. */
  readonly driftMs: number;
  /** Chances that a create comes with a jump of the clock. */
  readonly databaseJumps: number;
  readonly providerJumps: number;
  /** The provider's answers tell no time. */
  readonly silent: boolean;
}

/** Clocks that agree. */
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
  /** What the `Date` header of an answer says now; null where there is none. */
  readonly dateHeader: () => string | null;
  /** Sets the database's clock forward by more than a quarantine, or the provider's either way, as the temper has it. */
  mayJump(withinMs: number): void;
  /** From now on they run evenly. */
  heal(): void;
}

/** Milliseconds that all jumps of a clock may come to: beyond the search's margin nothing is sent. */
const DATABASE_MS_MAX = 600_000;
const PROVIDER_MS_MAX = 180_000;

const MINUTES_15 = 900_000;

/** Clocks of a seed. In most seeds they are apart, in some they jump. */
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

/** Makes the clocks. `leastJumpMs`: a jump of the database's clock is longer. */
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
