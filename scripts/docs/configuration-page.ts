import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  TOOL_THREAD_MEMORY_MB_DEFAULT,
  TOOL_THREAD_MEMORY_MB_MAX,
  TOOL_THREAD_MEMORY_MB_MIN,
  TOOL_THREADS_MAX,
} from '../../apps/tool-host/src/index.ts';
import * as core from '../../libs/agent-core/src/index.ts';
import { readEnvironmentSchema, type Variable } from './environment-schema.ts';
import { code, generatedFrom, page, table } from './markdown.ts';

const root = join(import.meta.dirname, '../..');

/** The programs that a deployment runs, and where each reads its environment. */
const PROGRAMS = [
  { title: 'API', file: 'apps/api/src/config.ts' },
  { title: 'Worker', file: 'apps/worker/src/config.ts' },
] as const;

/** A program and the variables that it reads. */
export interface ProgramVariables {
  readonly title: string;
  readonly file: string;
  readonly variables: readonly Variable[];
}

/** What every program reads. A variable that one program leaves undescribed means there what it means in another. */
export function readPrograms(): readonly ProgramVariables[] {
  const programs = PROGRAMS.map(({ title, file }) => ({
    title,
    file,
    variables: readEnvironmentSchema(readFileSync(join(root, file), 'utf8'), file, exportedAs),
  }));
  const effects = new Map(
    programs
      .flatMap(({ variables }) => variables)
      .filter(({ effect }) => effect !== '')
      .map(({ name, effect }) => [name, effect]),
  );
  return programs.map((program) => ({
    ...program,
    variables: program.variables.map((variable) => ({
      ...variable,
      effect: variable.effect === '' ? (effects.get(variable.name) ?? '') : variable.effect,
    })),
  }));
}

/** The page of environment variables. */
export function configurationPage(): string {
  const programs = readPrograms();
  return page([
    '# Configuration',
    generatedFrom(programs.map(({ file }) => code(file))),
    'Each program reads its environment once, when it starts, and does not start with a value it cannot use: the message ' +
      'names every variable that is wrong. Leave out what you do not set. The programs of one installation share ' +
      '`DATABASE_URL` and `QUEUE_URL`.',
    ...programs.flatMap(({ title, variables }) => [
      `## ${title}`,
      table(
        ['Variable', 'Effect', 'Value', 'Default'],
        variables.map((variable) => [
          code(variable.name),
          variable.effect === '' ? 'Not described.' : variable.effect,
          variable.value,
          defaultOf(variable),
        ]),
      ),
    ]),
  ]);
}

function defaultOf({ fallback, required }: Variable): string {
  if (required) return 'required';
  if (fallback === null) return 'none';
  return fallback === '' ? 'empty' : code(fallback);
}

/** What a config imports and bounds or defaults its variables with. */
const NAMES: Readonly<Record<string, unknown>> = {
  ...core,
  TOOL_THREAD_MEMORY_MB_DEFAULT,
  TOOL_THREAD_MEMORY_MB_MAX,
  TOOL_THREAD_MEMORY_MB_MIN,
  TOOL_THREADS_MAX,
};

function exportedAs(path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined,
    NAMES,
  );
}
