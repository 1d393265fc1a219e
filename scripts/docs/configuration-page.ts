import { environment as api } from '../../apps/api/src/config.ts';
import { environment as worker } from '../../apps/worker/src/config.ts';
import { code, generatedFrom, page, table } from './markdown.ts';

/** A zod object of environment variables. */
interface Environment {
  toJSONSchema(options: { readonly io: 'input' }): object;
}

interface Program {
  readonly title: string;
  readonly file: string;
  readonly environment: Environment;
}

/** The programs of a deployment with the schemas of their environment. */
const PROGRAMS: readonly Program[] = [
  { title: 'API', file: 'apps/api/src/config.ts', environment: api },
  { title: 'Worker', file: 'apps/worker/src/config.ts', environment: worker },
];

/** A variable as JSON schema; `rule` is metadata of our own. */
interface VariableSchema {
  readonly description?: string;
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly minLength?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly default?: string | number;
  /** Relation to another variable. */
  readonly rule?: string;
}

/** A row of the page. */
export interface Variable {
  readonly name: string;
  /** Empty without a description. */
  readonly effect: string;
  /** Kind, unit, bounds and rule. */
  readonly value: string;
  readonly fallback: string;
}

/** Reads the variables of each program. A variable without a description takes the other program's. */
export function readPrograms(): readonly (Program & { readonly variables: readonly Variable[] })[] {
  const effects = new Map<string, string>();
  const programs = PROGRAMS.map((program) => ({ ...program, variables: variablesOf(program.environment) }));
  for (const { name, effect } of programs.flatMap(({ variables }) => variables))
    if (effect !== '') effects.set(name, effect);
  const described = (variable: Variable): Variable =>
    variable.effect === '' ? { ...variable, effect: effects.get(variable.name) ?? '' } : variable;
  return programs.map((program) => ({ ...program, variables: program.variables.map(described) }));
}

/** Reads the variables of a schema. */
export function variablesOf(environment: Environment): readonly Variable[] {
  const { properties, required = [] } = environment.toJSONSchema({ io: 'input' }) as {
    readonly properties: Readonly<Record<string, VariableSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    effect: schema.description ?? '',
    value: [valueOf(name, schema), ...(schema.rule === undefined ? [] : [schema.rule])].join('; '),
    fallback: required.includes(name) ? 'required' : fallbackOf(schema.default),
  }));
}

function valueOf(name: string, schema: VariableSchema): string {
  if (schema.enum !== undefined) return schema.enum.map(code).join(', ');
  if (schema.format === 'uri') return 'URL';
  if (schema.type === 'string') {
    const { minLength = 0 } = schema;
    return minLength > 1 ? `text of at least ${minLength} characters` : 'text';
  }
  if (schema.type !== 'integer')
    throw new Error(`${name}: the page of variables has no words for its schema.`);
  const unit = name.endsWith('_MS') ? 'milliseconds' : name.includes('BYTES') ? 'bytes' : 'whole number';
  const { minimum = (schema.exclusiveMinimum ?? Number.NaN) + 1, maximum = Number.NaN } = schema;
  // zod bounds whole numbers by the range of a double.
  const bounds = [
    ...(minimum > Number.MIN_SAFE_INTEGER ? [`at least ${minimum}`] : []),
    ...(maximum < Number.MAX_SAFE_INTEGER ? [`at most ${maximum.toLocaleString('en-US')}`] : []),
  ];
  return [unit, ...bounds].join(', ');
}

function fallbackOf(value: string | number | undefined): string {
  if (value === undefined) return 'none';
  return value === '' ? 'empty' : code(String(value));
}

/** Builds the page of environment variables. */
export function configurationPage(): string {
  const programs = readPrograms();
  return page([
    '# Configuration',
    generatedFrom(programs.map(({ file }) => code(file))),
    'Each program reads its environment once, at its start. With an unusable value it does not start, and names every wrong ' +
      'variable. The programs of one installation share `DATABASE_URL` and `QUEUE_URL`.',
    ...programs.flatMap(({ title, variables }) => [
      `## ${title}`,
      table(
        ['Variable', 'Effect', 'Value', 'Default'],
        variables.map(({ name, effect, value, fallback }) => [code(name), effect, value, fallback]),
      ),
    ]),
  ]);
}
