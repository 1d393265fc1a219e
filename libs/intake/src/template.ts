import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import {
  defaultOperators,
  Liquid,
  type Context,
  type Emitter,
  type FilterImplOptions,
  type Operators,
  type Template,
} from 'liquidjs';
import { runWithTimeout } from './run-with-timeout.ts';

/** Timeout of parsing, whose time grows with the square of the number of tags. Unit: ms. */
const PARSE_MS_MAX = 2_000;
/** Memory limit of filling in one input, in characters and list items, including the output. */
const RENDER_MEMORY_MAX = 16_000_000;
/** Limit of text length times pattern length of a search: at worst two seconds, which no timeout can interrupt. */
const SEARCH_MAX = 1_000_000_000;
/** Maximum characters of an engine's message in an error. */
const MESSAGE_CHARS_MAX = 200;

/** Tags that read other templates, which do not exist here. */
const FOREIGN_TAGS = ['include', 'render', 'layout', 'block'];

/** Filters that evaluate an expression for each element of a list. */
const EXPRESSION_FILTERS = [
  'where_exp',
  'reject_exp',
  'group_by_exp',
  'has_exp',
  'find_exp',
  'find_index_exp',
];

/** Filters that search a text. */
const SEARCH_FILTERS = [
  'split',
  'remove',
  'remove_first',
  'remove_last',
  'replace',
  'replace_first',
  'replace_last',
];

type FilterHandler = Exclude<FilterImplOptions, { readonly raw: boolean }>;
type BinaryOperator = (left: unknown, right: unknown, context: Context) => ReturnType<Operators[string]>;

const engine = makeEngine();

function makeEngine(): Liquid {
  const liquid = new Liquid({
    strictVariables: true,
    strictFilters: true,
    // `default` and `if` may ask for a missing variable.
    lenientIf: true,
    // Callers give the variables, so properties of prototypes must not be readable.
    ownPropertyOnly: true,
    templates: {},
    memoryLimit: RENDER_MEMORY_MAX,
    operators: {
      ...defaultOperators,
      contains: (text: unknown, pattern: unknown, context: Context) => {
        // The limit is for texts only: a list is searched element by element.
        if (typeof text === 'string') assertSearchable(text, pattern);
        return (defaultOperators['contains'] as BinaryOperator)(text, pattern, context);
      },
    },
  });
  for (const name of FOREIGN_TAGS) Reflect.deleteProperty(liquid.tags, name);
  for (const name of EXPRESSION_FILTERS) Reflect.deleteProperty(liquid.filters, name);
  for (const name of SEARCH_FILTERS) {
    const search = liquid.filters[name] as FilterHandler;
    liquid.registerFilter(name, function (text: unknown, pattern: unknown, ...others: unknown[]): unknown {
      assertSearchable(text, pattern);
      return search.call(this, text, pattern, ...others);
    });
  }
  const { renderer } = liquid;
  const renderTemplates = renderer.renderTemplates.bind(renderer);
  // The engine makes an emitter for the text and for each capture, and does not count their memory.
  renderer.renderTemplates = (templates, context, emitter = countedEmitter(context)) =>
    renderTemplates(templates, context, emitter);
  return liquid;
}

/** Limits a search, because a timeout cannot interrupt Node's native search. */
function assertSearchable(text: unknown, pattern: unknown): void {
  if (charsOf(text) * charsOf(pattern) > SEARCH_MAX) throw new Error('search limit exceeded');
}

/** Returns at least the length of a value as text. */
function charsOf(value: unknown): number {
  if (Array.isArray(value)) return value.reduce<number>((chars, part) => chars + charsOf(part) + 1, 0);
  return String(value).length;
}

/** Creates an emitter that counts its output against the memory limit before it stores it. */
function countedEmitter({ memoryLimit }: Context): Emitter {
  return {
    buffer: '',
    write(value: string | number | boolean | object | null | undefined) {
      const text = typeof value === 'object' ? toJson(value, memoryLimit) : String(value ?? '');
      memoryLimit.use(text.length);
      this.buffer += text;
    },
  };
}

/** Writes structures as JSON: the engine prints [object Object], and lists without separators. */
function toJson(value: object | null, memoryLimit: Context['memoryLimit']): string {
  if (value === null) return '';
  return JSON.stringify(value, (key, part: unknown) => {
    memoryLimit.use(key.length + (typeof part === 'string' ? part.length : 1));
    return part;
  });
}

/**
 * Fills in a template with variables; `path` is their JSON pointer. It may run for ever, so callers need a timeout.
 * Throws: `validation_failed` with `path`.
 */
export type TextTemplate = (variables: Readonly<Record<string, unknown>>, path: string) => string;

/** A variable that a template reads: its name and the properties behind it; a computed property is a nested list. */
export type VariablePath = readonly unknown[];

/**
 * Parses a Liquid template at the JSON pointer `path`. A missing variable or an unknown filter is an error, never an empty text.
 * Throws: `validation_failed` with `path`.
 */
export function parseTemplate(text: string, path: string): TextTemplate {
  return parseWithVariables(text, path).fill;
}

/** As {@link parseTemplate}, with the variables that the template reads from outside. */
export function parseWithVariables(
  text: string,
  path: string,
): { readonly fill: TextTemplate; readonly variables: readonly VariablePath[] } {
  let parsed: Template[] = [];
  let variables: readonly VariablePath[] = [];
  const inTime = runWithTimeout(PARSE_MS_MAX, () => {
    parsed = explain(path, () => engine.parse(text));
    variables = explain(path, () => engine.globalVariableSegmentsSync(parsed));
  });
  if (!inTime) throw unusable(path, `takes more than ${PARSE_MS_MAX / 1000} s to parse`);
  return {
    fill: (values, at) => explain(at, () => toStorableText(render(parsed, values))),
    variables,
  };
}

function render(parsed: Template[], variables: Readonly<Record<string, unknown>>): string {
  const text: unknown = engine.renderSync(parsed, variables);
  return String(text);
}

function explain<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw unusable(path, error instanceof Error ? firstLine(error.message) : 'cannot be filled in');
  }
}

export function unusable(path: string, message: string): NightshiftError {
  return new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
}

/** Returns the first line of an engine's message, without its excerpt of the template, cut to a maximum. */
function firstLine(message: string): string {
  const line = message.split('\n', 1)[0] ?? message;
  return line.length <= MESSAGE_CHARS_MAX ? line : `${line.slice(0, MESSAGE_CHARS_MAX)}…`.toWellFormed();
}
