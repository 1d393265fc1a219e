/** The lines of the comparison: an engine, and its settings. */
import type { EngineContext } from './engines/engine.ts';
import { ENGINES, type EngineName } from './engines/engines.ts';

export interface Line {
  readonly name: string;
  readonly engine: EngineName;
  readonly workers: number;
  readonly scenario: EngineContext['scenario'];
  /** Largest number of runs it is asked to do. */
  readonly runs_max: number;
  readonly about: string;
}

const ofEngine = (engine: EngineName): Line => ({
  workers: 1,
  scenario: 'module',
  name: engine,
  engine,
  runs_max: ENGINES[engine].runs_max,
  about: ENGINES[engine].about,
});

export const LINES: readonly Line[] = [
  ofEngine('floor-full'),
  ofEngine('nightshift'),
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-2',
    workers: 2,
    about: 'the product with two worker processes',
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-waiting',
    scenario: 'waiting',
    // Its tool waits: more runs take minutes and show nothing new.
    runs_max: 10_000,
    about: 'the product with a tool that waits 100 ms for a service before it answers',
  },
  ofEngine('pgboss-batch'),
  ofEngine('bullmq'),
];
