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
import { actWithin } from './act-within.ts';

/** Milliseconds that parsing may take, which for very many tags grows with their square. */
const PARSE_MS_MAX = 2_000;
/** What one fill-in may take of memory, in characters and list items together, those of what it writes among them. */
const RENDER_MEMORY_MAX = 16_000_000;
/** Characters of a text times those of what is looked for in it: at worst a second or two, in which nothing ends it. */
const SEARCH_MAX = 1_000_000_000;
/** Characters that are told of what the engine says. */
const MESSAGE_CHARS_MAX = 200;

/** Tags that read other templates: there are none. */
const FOREIGN_TAGS = ['include', 'render', 'layout', 'block'];

/** Filters that work an expression out for each element of a list. */
const EXPRESSION_FILTERS = [
  'where_exp',
  'reject_exp',
  'group_by_exp',
  'has_exp',
  'find_exp',
  'find_index_exp',
];

/** Filters that look for one text in another. */
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
    // Variables come from a caller: what their prototypes hold is not theirs.
    ownPropertyOnly: true,
    templates: {},
    memoryLimit: RENDER_MEMORY_MAX,
    operators: {
      ...defaultOperators,
      contains: (text: unknown, pattern: unknown, context: Context) => {
        // In a list it is looked for element by element.
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
  // The engine makes an emitter for the text and for each capture, and counts nothing of what they hold.
  renderer.renderTemplates = (templates, context, emitter = countedEmitter(context)) =>
    renderTemplates(templates, context, emitter);
  return liquid;
}

/** Node looks for a text in another in one go, in which a timeout ends nothing. */
function assertSearchable(text: unknown, pattern: unknown): void {
  if (charsOf(text) * charsOf(pattern) > SEARCH_MAX) throw new Error('search limit exceeded');
}

/** At least the characters that a value is written in. */
function charsOf(value: unknown): number {
  if (Array.isArray(value)) return value.reduce<number>((chars, part) => chars + charsOf(part) + 1, 0);
  return String(value).length;
}

/** Takes what is written to it from the memory of the fill-in, before it is held. */
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

/** Structures would print as [object Object], and lists without anything between their items. */
function toJson(value: object | null, memoryLimit: Context['memoryLimit']): string {
  if (value === null) return '';
  return JSON.stringify(value, (key, part: unknown) => {
    memoryLimit.use(key.length + (typeof part === 'string' ? part.length : 1));
    return part;
  });
}

/**
 * Fills a template in with variables, any number of times. Throws `validation_failed` naming `path`, where they stand. It may
 * take for ever: whoever calls it looks at the clock.
 */
export type TextTemplate = (variables: Readonly<Record<string, unknown>>, path: string) => string;

/**
 * Parses a Liquid template. Variables and filters are strict: one that is not given, or not known, is an error and never
 * an empty text. Throws `validation_failed` naming `path`, where the template stands.
 */
export function parseTemplate(text: string, path: string): TextTemplate {
  let parsed: Template[] = [];
  const inTime = actWithin(PARSE_MS_MAX, () => {
    parsed = explain(path, () => engine.parse(text));
  });
  if (!inTime) throw unusable(path, `takes more than ${PARSE_MS_MAX / 1000} s to parse`);
  return (variables, at) => explain(at, () => toStorableText(render(parsed, variables)));
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

function unusable(path: string, message: string): NightshiftError {
  return new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
}

/** The engine's message, without the excerpt of the template that it adds; names are whole in it, however long they are. */
function firstLine(message: string): string {
  const line = message.split('\n', 1)[0] ?? message;
  return line.length <= MESSAGE_CHARS_MAX ? line : `${line.slice(0, MESSAGE_CHARS_MAX)}…`.toWellFormed();
}
