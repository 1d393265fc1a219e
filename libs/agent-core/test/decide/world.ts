import { fc } from '../../../../test/fast-check.ts';
import type { RetryPolicy } from '../../src/decide/decision.ts';
import type { StepOutcome } from '../../src/decide/step-outcome.ts';
import { isRunEnded } from '../../src/machine/run.ts';
import {
  acceptedRun,
  applyLine,
  cancelRun,
  customIdOf,
  seal,
  settleCalls,
  type Line,
  type RunRow,
} from './fleet.ts';
import { anyOutcome } from './outcomes.ts';

/** Few attempts, so that giving up is frequent. */
export const policy: RetryPolicy = {
  attempts_max: 3,
  retry_delay_ms: 1,
  retry_delay_ms_max: 10,
  outage_delay_ms: 7,
  outage_ms_max: 70,
};
/** Maximum passes of a run: each step has its failed attempts, an attempt for doubled tokens, and its tools. */
const passesMax = (maxSteps: number): number => maxSteps * (policy.attempts_max + 2) * 2;

/** The environment of a fleet: the outcome of each attempt, and the delivery of its lines. */
export interface World {
  readonly maxSteps: readonly number[];
  /** The outcome of an attempt, always the same. */
  readonly outcomeOf: (customId: string) => StepOutcome;
  /** Position of a line in a pass; any numbers, so any order. */
  readonly placeOf: (pass: number, customId: string, copy: number) => number;
  /** Number of further copies of a line. */
  readonly copiesOf: (pass: number, customId: string) => number;
  /** Whether a run's calls are carried out in this pass or later. */
  readonly actsNow: (pass: number, runId: string) => boolean;
  /** Twice the pass in which the batch is cancelled, before its steps are sealed; odd: after. Null for never. */
  readonly cancelledAt: number | null;
}

export const world: fc.Arbitrary<World> = fc.record({
  maxSteps: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 6 }),
  outcomeOf: fc.func(anyOutcome),
  placeOf: fc.func(fc.nat()),
  copiesOf: fc.func(fc.constantFrom(0, 0, 1, 2)),
  actsNow: fc.func(fc.boolean()),
  cancelledAt: fc.option(fc.nat(11), { nil: null, freq: 3 }),
});

/** Runs a fleet to its end and returns the rows after each change. */
export function runFleet(
  given: World,
  delivery: 'as told' | 'in order, once',
): readonly (readonly RunRow[])[] {
  let rows: readonly RunRow[] = given.maxSteps.map((maxSteps, index) => acceptedRun(index, maxSteps));
  const history = [rows];
  const change = (next: readonly RunRow[]): void => {
    rows = next;
    history.push(rows);
  };
  const sent: Line[] = [];
  for (let pass = 0; rows.some(({ facts }) => !isRunEnded(facts.state)); pass++) {
    if (pass > passesMax(Math.max(...given.maxSteps)) * 2)
      throw new Error('The fleet does not come to an end.');
    if (given.cancelledAt === 2 * pass) change(rows.map(cancelRun));
    change(rows.map(seal));
    if (given.cancelledAt === 2 * pass + 1) change(rows.map(cancelRun));
    for (const { facts, steps } of rows) {
      const step = steps.at(-1);
      if (facts.state !== 'in_flight' || step === undefined) continue;
      sent.push({ key: step.key, outcome: given.outcomeOf(customIdOf(step.key)) });
    }
    // Each pass may deliver earlier lines again, as a stream read from the top does.
    const delivered =
      delivery === 'in order, once'
        ? sent
        : sent
            .flatMap((line) => {
              const id = customIdOf(line.key);
              const copies = Array.from({ length: 1 + given.copiesOf(pass, id) }, (_, copy) => copy);
              return copies.map((copy) => ({ line, place: given.placeOf(pass, id, copy) }));
            })
            .toSorted((a, b) => a.place - b.place)
            .map(({ line }) => line);
    for (const line of delivered) {
      change(rows.map((row) => (row.facts.id === line.key.run_id ? applyLine(row, line, policy) : row)));
    }
    const acts = (row: RunRow): boolean =>
      delivery === 'in order, once' || pass % 4 === 3 || given.actsNow(pass, row.facts.id);
    change(rows.map((row) => (acts(row) ? settleCalls(row) : row)));
  }
  return history;
}

/** Returns the rows after the last change. */
export function endOf(history: readonly (readonly RunRow[])[]): readonly RunRow[] {
  return history.at(-1) ?? [];
}

/** Returns every version of every row, each once. */
export function versionsOf(history: readonly (readonly RunRow[])[]): ReadonlySet<RunRow> {
  return new Set(history.flat());
}
