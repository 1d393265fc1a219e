/** What every scenario works with. */
import type { Options } from '../options.ts';
import type { Goal } from '../report/comparison.ts';

export interface Bench {
  readonly options: Options;
  /** Everything written at run time lies here. */
  readonly dir: string;
  /** Writes progress to standard error; the result goes to standard output. */
  say(text: string): void;
}

/** What a scenario found: a table for people and figures for programs. */
export interface ScenarioResult {
  readonly title: string;
  readonly table: { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };
  readonly figures: object;
  /** What it is held to. */
  readonly goals: readonly Goal[];
  readonly notes: readonly string[];
}
