import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import { Liquid, type Template } from 'liquidjs';

/** Milliseconds that one input may take to fill in: a loop without end takes more, a machine that pauses for breath less. */
const RENDER_MS_MAX = 2_000;
/** What one fill-in may take of memory, in characters and list items together. */
const RENDER_MEMORY_MAX = 16_000_000;

/** Tags that read other templates: there are none. */
const FOREIGN_TAGS = ['include', 'render', 'layout', 'block'];

/** Filters that work an expression out for each element of a list, in one go that the limit of time does not end. */
const ENDLESS_FILTERS = ['where_exp', 'reject_exp', 'group_by_exp', 'has_exp', 'find_exp', 'find_index_exp'];

const engine = makeEngine();

function makeEngine(): Liquid {
  const liquid = new Liquid({
    strictVariables: true,
    strictFilters: true,
    // Variables come from a caller: what their prototypes hold is not theirs.
    ownPropertyOnly: true,
    templates: {},
    renderLimit: RENDER_MS_MAX,
    memoryLimit: RENDER_MEMORY_MAX,
    // Structures would print as [object Object], and lists without anything between their items.
    outputEscape: (value: unknown) =>
      typeof value === 'object' && value !== null ? JSON.stringify(value) : value,
  } as ConstructorParameters<typeof Liquid>[0]);
  for (const name of FOREIGN_TAGS) Reflect.deleteProperty(liquid.tags, name);
  for (const name of ENDLESS_FILTERS) Reflect.deleteProperty(liquid.filters, name);
  return liquid;
}

/** Fills a template in with variables, any number of times. Throws `validation_failed` naming `path`, where they stand. */
export type TextTemplate = (variables: Readonly<Record<string, unknown>>, path: string) => string;

/**
 * Parses a Liquid template. Variables and filters are strict: one that is not given, or not known, is an error and never
 * an empty text. Throws `validation_failed` naming `path`, where the template stands.
 */
export function parseTemplate(text: string, path: string): TextTemplate {
  const parsed = explain(path, () => engine.parse(text));
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
    const message = error instanceof Error ? firstLine(error.message) : 'cannot be filled in';
    throw new NightshiftError('validation_failed', `${path}: ${message}.`, { fields: [{ path, message }] });
  }
}

/** The engine's message, without the excerpt of the template that it adds. */
function firstLine(message: string): string {
  return message.split('\n', 1)[0] ?? message;
}
