/** The input of every scenario. */
import type { Options } from '../options.ts';
import type { Goal } from '../report/comparison.ts';

export interface Bench {
  readonly options: Options;
  /** Directory for everything written at run time. */
  readonly dir: string;
  /** Writes progress to standard error; the result goes to standard output. */
  say(text: string): void;
}

/** Result of a scenario: a table for people and figures for programs. */
export interface ScenarioResult {
  readonly title: string;
  readonly table: { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };
  readonly figures: object;
  readonly goals: readonly Goal[];
  readonly notes: readonly string[];
}
