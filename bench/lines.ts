/** The lines of the comparison: an engine, and how it is run. */
import type { EngineContext } from './engines/engine.ts';
import { ENGINES, type EngineEntry, type EngineName } from './engines/engines.ts';

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
  readonly about: string;
}

const plain = { workers: 1, scenario: 'module', http: false, filled: false, workerEnv: {} } as const;
const ofEngine = (engine: EngineName): Line => ({
  ...plain,
  name: engine,
  engine,
  about: ENGINES[engine].about,
});

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

export function entryOf(line: Line): EngineEntry {
  return ENGINES[line.engine];
}
