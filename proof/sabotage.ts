/** Runs the mutants of the safety code and reports which check catches each. */
import type { ProofDatabase } from './database.ts';
import { SEEDS_MAX, type Mutant } from './mutants.ts';
import { simulateSchedules } from './schedules.ts';
import { simulate, type SimulationResult } from './simulation.ts';

export interface MutantReport {
  readonly name: string;
  readonly caughtBy: string | null;
  readonly seeds: number;
  /** Reason why it does not count as caught. */
  readonly fault: string | null;
}

/** Number of effects with faults, unless the mutant's world has its own: most are caught early. */
const FAULTY_EVENTS = 600;
/** Zones of a simulation of schedules. */
const SCHEDULE_ZONES = 1;

/** Runs one mutant until a named check catches it, or `seedsMax` seeds have passed. */
export async function runMutant(
  database: ProofDatabase,
  mutant: Mutant,
  seedsMax = SEEDS_MAX,
): Promise<MutantReport> {
  let removed = false;
  for (let seed = 1; seed <= seedsMax; seed++) {
    const { caughtBy, removesCode } = await runSeed(database, mutant, seed);
    removed ||= removesCode;
    if (caughtBy === null) continue;
    const fault = await controlFault(database, mutant, seed);
    return { name: mutant.name, caughtBy, seeds: seed, fault };
  }
  const fault = removed ? 'no check has caught it' : 'it changes nothing: the code it takes out has moved';
  return { name: mutant.name, caughtBy: null, seeds: seedsMax, fault };
}

/** Tells whether a mutant removes code in any of its first `seedsMax` seeds. Stops at the first that does. */
export async function findsItsCode(
  database: ProofDatabase,
  mutant: Mutant,
  seedsMax: number,
): Promise<boolean> {
  for (let seed = 1; seed <= seedsMax; seed++)
    if ((await runSeed(database, mutant, seed, true)).removesCode) return true;
  return false;
}

interface SeedOutcome {
  readonly caughtBy: string | null;
  /** Whether the mutant, and its removal of other guards, took effect. */
  readonly removesCode: boolean;
}

/** Runs a seed. `untilRemoved`: it may end once code is removed, before a check speaks. */
async function runSeed(
  database: ProofDatabase,
  mutant: Mutant,
  seed: number,
  untilRemoved = false,
): Promise<SeedOutcome> {
  let [hits, othersHits] = [0, 0];
  const hit = (): void => {
    hits += 1;
  };
  if (mutant.schedules !== undefined) {
    const sabotage = mutant.schedules(hit);
    const result = await simulateSchedules(database, { seed, zones: SCHEDULE_ZONES, sabotage });
    return { caughtBy: caughtIn(mutant, result), removesCode: hits > 0 };
  }
  const others = mutant.others?.(() => {
    othersHits += 1;
  });
  const sabotage = mutant.make(hit);
  const { rewrite } = sabotage;
  const isRemoved = (): boolean => hits > 0 && (others === undefined || othersHits > 0);
  const result = await simulate(database, {
    ...{ seed, faultyEvents: FAULTY_EVENTS },
    ...mutant.world,
    isEnough: () => untilRemoved && isRemoved(),
    sabotage:
      others === undefined
        ? sabotage
        : { ...sabotage, rewrite: (text: string) => (rewrite ?? String)(others(text)) },
    // Some mutants show only at the end of a seed, so the simulation goes on after a violation.
    keepGoing: others !== undefined,
  });
  return { caughtBy: caughtIn(mutant, result), removesCode: isRemoved() };
}

/** Runs the control: the other guards are gone, this one is in place, and the violation must not show. */
async function controlFault(database: ProofDatabase, mutant: Mutant, seed: number): Promise<string | null> {
  const rewrite = mutant.others?.(() => undefined);
  if (rewrite === undefined) return null;
  const result = await simulate(database, {
    ...{ seed, faultyEvents: FAULTY_EVENTS },
    ...mutant.world,
    ...{ sabotage: { rewrite }, keepGoing: true },
  });
  const spoke = caughtIn(mutant, result);
  return spoke === null ? null : `${spoke} speaks without it too`;
}

function caughtIn(mutant: Mutant, result: Pick<SimulationResult, 'violations'>): string | null {
  return result.violations.find(({ name }) => mutant.caughtBy.includes(name))?.name ?? null;
}
