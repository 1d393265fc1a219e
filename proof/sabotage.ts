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

/** Zones of a simulation of schedules. */
const SCHEDULE_ZONES = 1;

/** Fault of a mutant that changed nothing. */
export const HAS_MOVED = 'it changes nothing: the code it takes out has moved';

/** Runs one mutant until a named check catches it, or `seedsMax` seeds have passed. */
export async function runMutant(
  database: ProofDatabase,
  mutant: Mutant,
  seedsMax = SEEDS_MAX,
): Promise<MutantReport> {
  let hits = 0;
  const hit = (): void => {
    hits += 1;
  };
  let othersHits = 0;
  const others = mutant.others?.(() => {
    othersHits += 1;
  });
  for (let seed = 1; seed <= seedsMax; seed++) {
    const sabotage = mutant.make(hit);
    const { rewrite } = sabotage;
    const whole =
      others === undefined
        ? sabotage
        : { ...sabotage, rewrite: (text: string) => (rewrite ?? String)(others(text)) };
    if (mutant.schedules !== undefined) {
      const sabotaged = { seed, zones: SCHEDULE_ZONES, sabotage: mutant.schedules(hit) };
      const caught = caughtIn(mutant, await simulateSchedules(database, sabotaged));
      if (caught !== null) return { name: mutant.name, caughtBy: caught, seeds: seed, fault: null };
      continue;
    }
    // Some mutants show only at the end of a seed, so the simulation goes on after a violation.
    const result = await simulate(database, {
      seed,
      ...mutant.world,
      sabotage: whole,
      keepGoing: others !== undefined,
    });
    const caught = caughtIn(mutant, result);
    if (caught === null) continue;
    const fault = others === undefined ? null : await controlFault(database, mutant, seed);
    return { name: mutant.name, caughtBy: caught, seeds: seed, fault };
  }
  const hasMoved = hits === 0 || (others !== undefined && othersHits === 0);
  const fault = hasMoved ? HAS_MOVED : 'no check has caught it';
  return { name: mutant.name, caughtBy: null, seeds: seedsMax, fault };
}

/** Runs the control: the other guards are gone, this one is in place, and the violation must not show. */
async function controlFault(database: ProofDatabase, mutant: Mutant, seed: number): Promise<string | null> {
  const rewrite = mutant.others?.(() => undefined);
  if (rewrite === undefined) return null;
  const result = await simulate(database, { seed, ...mutant.world, sabotage: { rewrite }, keepGoing: true });
  const spoke = caughtIn(mutant, result);
  return spoke === null ? null : `${spoke} speaks without it too`;
}

function caughtIn(mutant: Mutant, result: Pick<SimulationResult, 'violations'>): string | null {
  return result.violations.find(({ name }) => mutant.caughtBy.includes(name))?.name ?? null;
}
