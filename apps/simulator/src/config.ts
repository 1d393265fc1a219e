import { z } from 'zod';
import type { ClockMode } from './clock.ts';
import { rateOfMode } from './clock.ts';
import { parseLatency } from './latency.ts';

const port = z.coerce.number().int().min(0).max(65535);

const parses =
  (parse: (text: string) => unknown) => (text: string, context: z.core.$RefinementCtx<string>) => {
    try {
      parse(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
    }
  };

const environment = z.object({
  HOST: z.string().default('127.0.0.1'),
  SIMULATOR_PORT: port.default(8290),
  SIMULATOR_CONTROL_PORT: port.default(8291),
  SIMULATOR_SEED: z.string().min(1).default('nightshift'),
  SIMULATOR_LATENCY_MS: z.string().superRefine(parses(parseLatency)).default('uniform:200-2000'),
  SIMULATOR_CLOCK: z.string().superRefine(parses(rateOfMode)).default('real'),
  SIMULATOR_API_KEY: z.string().min(1).optional(),
  SIMULATOR_DATA_DIR: z.string().min(1).default('.data/simulator'),
  SIMULATOR_EXIT_WITH_PARENT: z.enum(['0', '1']).default('0'),
});

/** The configuration from the environment. */
export interface Config {
  readonly host: string;
  readonly apiPort: number;
  readonly controlPort: number;
  readonly seed: string;
  readonly latency: string;
  readonly clock: ClockMode;
  readonly apiKey: string | undefined;
  readonly dataDir: string;
  readonly exitWithParent: boolean;
}

/**
 * Reads the configuration. An empty variable counts as absent.
 * Throws: ZodError that names the variable.
 */
export function readConfig(variables: NodeJS.ProcessEnv): Config {
  const present = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const parsed = environment.parse(present);
  return {
    host: parsed.HOST,
    apiPort: parsed.SIMULATOR_PORT,
    controlPort: parsed.SIMULATOR_CONTROL_PORT,
    seed: parsed.SIMULATOR_SEED,
    latency: parsed.SIMULATOR_LATENCY_MS,
    clock: parsed.SIMULATOR_CLOCK as ClockMode,
    apiKey: parsed.SIMULATOR_API_KEY,
    dataDir: parsed.SIMULATOR_DATA_DIR,
    exitWithParent: parsed.SIMULATOR_EXIT_WITH_PARENT === '1',
  };
}
