/** The lines of the comparison: an engine, and how it is run. */
import type { EngineContext } from './engines/engine.ts';
import { ENGINES, type EngineName } from './engines/engines.ts';

export interface Line {
  readonly name: string;
  readonly engine: EngineName;
  readonly workers: number;
  readonly scenario: EngineContext['scenario'];
  /** The provider is a server of its own, spoken to over HTTP. */
  readonly http: boolean;
  /** The database holds as many finished runs already. */
  readonly filled: boolean;
  /** Environment of the product's workers, beside that of the command line. */
  readonly workerEnv: Readonly<Record<string, string>>;
  /** Largest number of runs it is asked to do. */
  readonly runs_max: number;
  readonly about: string;
}

const plain = { workers: 1, scenario: 'module', http: false, filled: false, workerEnv: {} } as const;
const ofEngine = (engine: EngineName): Line => ({
  ...plain,
  name: engine,
  engine,
  runs_max: ENGINES[engine].runs_max,
  about: ENGINES[engine].about,
});

/** Its tool waits: many runs take minutes and show nothing new. */
const WAITING_RUNS_MAX = 10_000;

export const LINES: readonly Line[] = [
  ofEngine('floor'),
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
    name: 'nightshift-two-commits',
    workerEnv: { QUICK_CALLS_MS: '0' },
    about: 'the product with every answer committed before its calls are made',
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-http',
    http: true,
    about: "the product with its own provider client; the provider's process is not in its figures",
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-memory',
    scenario: 'memory',
    about: 'the product with two writes to a memory block instead of the tool calls',
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-waiting',
    scenario: 'waiting',
    runs_max: WAITING_RUNS_MAX,
    about: 'the product with a tool that waits 100 ms for a service before it answers',
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-waiting-2',
    workers: 2,
    scenario: 'waiting',
    runs_max: WAITING_RUNS_MAX,
    about: 'the same with two worker processes',
  },
  {
    ...ofEngine('nightshift'),
    name: 'nightshift-filled',
    filled: true,
    about: 'the product on a database that already holds as many finished runs',
  },
  ofEngine('pgboss-batch'),
  ofEngine('bullmq'),
  ofEngine('dbos'),
  ofEngine('letta-port'),
];

export const PEERS: readonly string[] = ['pgboss-batch', 'bullmq', 'dbos', 'letta-port'];
