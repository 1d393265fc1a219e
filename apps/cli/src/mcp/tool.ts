import type { Nightshift } from '@nightshift/client';
import { z } from 'zod';
import { CommandError } from '../failure.ts';

/** What a tool answers: a sentence, and the facts. */
export interface Answer {
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** What a call would do. */
export interface DryRun extends Answer {
  /** State that the description rests on: if it is another at the confirmed call, nothing is done. */
  readonly state: unknown;
}

interface Described {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodObject;
}

/** A tool that changes nothing. */
export interface ReadingTool extends Described {
  readonly kind: 'reading';
  read(client: Nightshift, input: unknown, signal: AbortSignal): Promise<Answer>;
}

/** A tool that acts after a dry run. */
export interface WritingTool extends Described {
  readonly kind: 'writing';
  /** True: it ends work or overwrites memory. */
  readonly isDestructive: boolean;
  parse(input: unknown): unknown;
  dryRun(client: Nightshift, input: unknown): Promise<DryRun>;
  /** Acts. The same key acts once. */
  act(client: Nightshift, input: unknown, key: string): Promise<Answer>;
}

export type Tool = ReadingTool | WritingTool;

/** Defines a reading tool. */
export function readingTool<Input extends z.ZodObject>(
  tool: Described & {
    readonly input: Input;
    readonly read: (client: Nightshift, input: z.output<Input>, signal: AbortSignal) => Promise<Answer>;
  },
): ReadingTool {
  return {
    ...tool,
    kind: 'reading',
    read: async (client, input, signal) => tool.read(client, parse(tool.input, input), signal),
  };
}

/** Defines a writing tool. */
export function writingTool<Input extends z.ZodObject>(
  tool: Described & {
    readonly isDestructive: boolean;
    readonly input: Input;
    readonly dryRun: (client: Nightshift, input: z.output<Input>) => Promise<DryRun>;
    readonly act: (client: Nightshift, input: z.output<Input>, key: string) => Promise<Answer>;
  },
): WritingTool {
  return {
    ...tool,
    kind: 'writing',
    parse: (input) => parse(tool.input, input),
    dryRun: (client, input) => tool.dryRun(client, parse(tool.input, input)),
    act: (client, input, key) => tool.act(client, parse(tool.input, input), key),
  };
}

function parse<Input extends z.ZodObject>(schema: Input, given: unknown): z.output<Input> {
  const { success, data, error } = schema.strict().safeParse(given ?? {});
  if (success) return data as z.output<Input>;
  throw new CommandError(`Wrong arguments.\n${z.prettifyError(error)}`);
}

/** Chooses fields of a record. */
export function pick<Item extends object, Name extends keyof Item>(
  item: Item,
  ...names: readonly Name[]
): Pick<Item, Name> {
  return Object.fromEntries(names.map((name) => [name, item[name]])) as Pick<Item, Name>;
}

/** Writes a count with its noun: `1 run`, `2 runs`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}
