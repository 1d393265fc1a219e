import { AGREEING, drawClockTemper, type ClockTemper } from './clocks.ts';
import type { Random } from './random.ts';

/** The provider's faults: probabilities, and virtual milliseconds. All of them end when the world heals. */
export interface Temper {
  readonly create: {
    readonly refuse: number;
    readonly dropBefore: number;
    readonly commitThenDrop: number;
    readonly hang: number;
    readonly slow: number;
    /** A proxy answers 504 and forwards the create later, up to hours. */
    readonly late: number;
  };
  /** Maximum time for which a new batch is missing in lists, and unknown by its id. */
  readonly listLagMs: number;
  readonly notFoundMs: number;
  readonly unavailable: number;
  /** Batches of other applications, of similar sizes. */
  readonly foreignBatches: number;
  /** A batch is lost for good. */
  readonly forget: number;
  readonly late: number;
  readonly neverEnds: number;
  readonly clocks: ClockTemper;
  readonly fates: {
    readonly errored: number;
    readonly expired: number;
    readonly permanent: number;
    readonly tooLong: number;
  };
  readonly results: {
    readonly notReady: number;
    readonly cut: number;
    readonly shortEnd: number;
    readonly duplicate: number;
    readonly foreignLine: number;
    readonly garbage: number;
    readonly drop: number;
    /** Billed answers without use: nested too deep, without a list, or garbled with a readable usage. */
    readonly unusable: number;
  };
  /** Batches that are cancelled at the console. */
  readonly console: number;
}

/** A provider without faults. */
export const CALM: Temper = {
  create: { refuse: 0, dropBefore: 0, commitThenDrop: 0, hang: 0, slow: 0, late: 0 },
  listLagMs: 0,
  notFoundMs: 0,
  unavailable: 0,
  foreignBatches: 0,
  forget: 0,
  late: 0,
  neverEnds: 0,
  clocks: AGREEING,
  fates: { errored: 0, expired: 0, permanent: 0, tooLong: 0 },
  results: {
    notReady: 0,
    cut: 0,
    shortEnd: 0,
    duplicate: 0,
    foreignLine: 0,
    garbage: 0,
    drop: 0,
    unusable: 0,
  },
  console: 0,
};

/** Draws the faults of a seed. Each fault is absent in some seeds, so that all mixtures occur. */
export function drawTemper(random: Random, lagMaxMs: number): Temper {
  const sometimes = (probability: number): number => (random.chance(0.5) ? probability * random.next() : 0);
  // A stream of its own, so that other draws stay the same.
  const tooLong = random.fork('too long').chance(0.3) ? 0.1 : 0;
  const unusable = random.fork('unusable').chance(0.3) ? 0.15 : 0;
  const console = random.fork('console').chance(0.3) ? 0.2 : 0;
  const lateness = random.fork('late creates');
  const late = lateness.chance(0.3) ? 0.4 * lateness.next() : 0;
  return {
    create: {
      refuse: sometimes(0.3),
      dropBefore: sometimes(0.4),
      commitThenDrop: sometimes(0.6),
      hang: sometimes(0.3),
      slow: sometimes(0.5),
      late,
    },
    listLagMs: random.chance(0.5) ? random.int(0, lagMaxMs) : 0,
    notFoundMs: random.chance(0.5) ? random.int(0, lagMaxMs) : 0,
    unavailable: sometimes(0.4),
    foreignBatches: sometimes(0.6),
    forget: random.chance(0.1) ? 0.1 : 0,
    late: sometimes(0.5),
    neverEnds: sometimes(0.2),
    clocks: drawClockTemper(random.fork('clocks')),
    fates: { errored: sometimes(0.3), expired: sometimes(0.2), permanent: sometimes(0.1), tooLong },
    results: {
      notReady: sometimes(0.4),
      cut: sometimes(0.5),
      shortEnd: sometimes(0.4),
      duplicate: sometimes(0.5),
      foreignLine: sometimes(0.4),
      garbage: sometimes(0.15),
      drop: sometimes(0.15),
      unusable,
    },
    console,
  };
}
