/** Draws the faults of a seed. */
import type { Random } from './random.ts';
import type { Striker } from './world.ts';
import { LEASE_MS } from './worker.ts';

/** Probabilities per effect. */
export interface FaultRates {
  readonly kill: number;
  readonly pause: number;
  readonly fail: number;
  readonly slow: number;
}

/** Draws the rates of a seed: some seeds have only kills, some only pauses, most a mixture. */
export function drawRates(random: Random): FaultRates {
  const sometimes = (most: number): number => (random.chance(0.7) ? most * random.next() : 0);
  return { kill: sometimes(0.02), pause: sometimes(0.02), fail: sometimes(0.02), slow: sometimes(0.04) };
}

export interface FaultCounts {
  kill: number;
  pause: number;
  fail: number;
  slow: number;
}

/** Strikes at random while `isActive`, and counts the strikes. */
export function createRandomStriker(
  random: Random,
  rates: FaultRates,
  isActive: () => boolean,
  counts: FaultCounts,
): Striker {
  return ({ actor, canFail }) => {
    if (!isActive()) return null;
    let draw = random.next();
    const hit = (rate: number): boolean => {
      const isHit = draw >= 0 && draw < rate;
      draw -= rate;
      return isHit;
    };
    if (hit(rates.kill)) {
      counts.kill += 1;
      return { kind: 'kill', performed: random.chance(0.5) };
    }
    if (hit(rates.pause)) {
      counts.pause += 1;
      const leases = random.chance(0.15) ? 12 : 4;
      const ms = random.int(LEASE_MS, leases * LEASE_MS);
      // The whole machine sleeps, so its monotonic clock loses the time. A machine whose wall clock jumps too could not notice.
      if (random.chance(0.3) && actor.wallOffsetMs === 0) actor.clockOffsetMs -= ms;
      return { kind: 'pause', ms, performed: random.chance(0.5) };
    }
    if (hit(rates.fail)) {
      const performed = random.chance(0.5);
      if (!canFail) return null;
      counts.fail += 1;
      return { kind: 'fail', performed };
    }
    if (hit(rates.slow)) {
      counts.slow += 1;
      return { kind: 'slow', ms: random.int(10, LEASE_MS) };
    }
    return null;
  };
}
