import { parseDocument } from 'yaml';
import { z } from 'zod';

// The part of the Compose Specification that docker-compose.yml uses. Refuses everything else, so that a typo is found here and
// not by an engine.

const duration = z.string().regex(/^(\d+(ms|s|m|h))+$/);
const size = z.string().regex(/^\d+(b|kb?|mb?|gb?)$/);
const words = z.array(z.string().min(1)).min(1);
/** Null: the value of the shell, if any. */
const environment = z.record(z.string().regex(/^[A-Z][A-Z0-9_]*$/), z.string().nullable());

const healthcheck = z.union([
  z.strictObject({ disable: z.literal(true) }),
  z.strictObject({
    test: z.tuple([z.enum(['CMD', 'CMD-SHELL'])], z.string()).refine((test) => test.length >= 2, 'is empty'),
    interval: duration,
    timeout: duration,
    retries: z.int().positive(),
    start_period: duration.optional(),
  }),
]);

const dependency = z.strictObject({
  condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']),
  required: z.boolean().optional(),
});

const service = z.strictObject({
  image: z.string().min(1),
  build: z.strictObject({ context: z.string(), dockerfile: z.string() }).optional(),
  command: words.optional(),
  container_name: z.string().optional(),
  environment: environment.optional(),
  ports: words.optional(),
  volumes: words.optional(),
  tmpfs: words.optional(),
  shm_size: size.optional(),
  depends_on: z.record(z.string(), dependency).optional(),
  healthcheck: healthcheck.optional(),
  profiles: words.optional(),
  init: z.boolean().optional(),
  read_only: z.boolean().optional(),
  cap_drop: words.optional(),
  security_opt: words.optional(),
  restart: z.enum(['no', 'always', 'on-failure', 'unless-stopped']).optional(),
  stop_grace_period: duration.optional(),
});

const composeFile = z
  .strictObject({
    name: z.string().regex(/^[a-z0-9][a-z0-9_-]*$/),
    services: z.record(z.string().regex(/^[a-zA-Z0-9._-]+$/), service),
    volumes: z.record(z.string().regex(/^[a-zA-Z0-9._-]+$/), z.null()),
  })
  .superRefine(({ services, volumes }, context) => {
    for (const [name, { depends_on, volumes: mounts }] of Object.entries(services)) {
      for (const other of Object.keys(depends_on ?? {})) {
        if (services[other] === undefined) {
          context.addIssue({
            code: 'custom',
            path: ['services', name, 'depends_on', other],
            message: 'is no service',
          });
        }
      }
      for (const mount of mounts ?? []) {
        const source = mount.split(':')[0] ?? '';
        if (/^[a-z]/.test(source) && !(source in volumes)) {
          context.addIssue({
            code: 'custom',
            path: ['services', name, 'volumes'],
            message: `${source} is no volume`,
          });
        }
      }
    }
  });

export type ComposeFile = z.infer<typeof composeFile>;
export type ComposeService = z.infer<typeof service>;

/**
 * Parses and checks a Compose file without replacing variables.
 * Throws: with every fault.
 */
export function parseCompose(text: string): ComposeFile {
  const document = parseDocument(text, { merge: true, strict: true, uniqueKeys: true });
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) throw new Error(faults.map(({ message }) => message).join('\n'));
  const raw = document.toJS() as Record<string, unknown>;
  // Keys with x- are extensions, for anchors.
  const entries = Object.entries(raw).filter(([key]) => !key.startsWith('x-'));
  return composeFile.parse(Object.fromEntries(entries));
}

/**
 * Replaces variables in a text: `${NAME}`, `${NAME:-default}`, `${NAME:+instead of its value}`, `$$` for a dollar.
 * Throws: for a variable without value and default. Compose would warn and use an empty string.
 */
export function interpolate(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replaceAll(
    /\$(?:\$|\{([A-Z][A-Z0-9_]*)(?::([-+])([^}]*))?\})/g,
    (whole, name?: string, sign?: string, word = '') => {
      if (name === undefined) return '$';
      const value = variables[name] ?? '';
      if (sign === '+') return value === '' ? '' : word;
      if (value !== '') return value;
      if (sign === undefined) throw new Error(`${whole} has no value and no default`);
      return word;
    },
  );
}

/** Returns the environment of a service's container, with the shell's `variables`. */
export function environmentOfService(
  { environment: given }: ComposeService,
  variables: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    const taken = value === null ? variables[name] : interpolate(value, variables);
    if (taken !== undefined) environment[name] = taken;
  }
  return environment;
}

/** Converts a duration such as `1m30s`. Unit: milliseconds. */
export function durationMs(text: string): number {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  return [...text.matchAll(/(\d+)(ms|s|m|h)/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ''] ?? Number.NaN),
    0,
  );
}
