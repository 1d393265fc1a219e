/** The lines of the comparison: an engine and its settings. */
import type { EngineContext } from './engines/engine.ts';
import { ENGINES, type EngineName } from './engines/engines.ts';

export interface Line {
  readonly name: string;
  readonly engine: EngineName;
  readonly workers: number;
  readonly scenario: EngineContext['scenario'];
  /** Largest size that is worth measuring. */
  readonly runs_max: number;
}

const ofEngine = (engine: EngineName): Line => ({
  workers: 1,
  scenario: 'module',
  name: engine,
  engine,
  runs_max: ENGINES[engine].runs_max,
});

export const LINES: readonly Line[] = [
  ofEngine('floor-full'),
  ofEngine('nightshift'),
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-2',
    workers: 2,
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-waiting',
    scenario: 'waiting',
    // The tool waits: larger sizes take minutes and show nothing new.
    runs_max: 10_000,
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-concurrent',
    scenario: 'concurrent',
    runs_max: 10_000,
  },
  ofEngine('pgboss-batch'),
  ofEngine('bullmq'),
];
