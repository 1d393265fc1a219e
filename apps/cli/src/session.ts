import type { Nightshift } from '@nightshift/client';
import type { Command } from 'commander';
import type { Config } from './config.ts';
import type { Output } from './output.ts';

/** What a command works with. */
export interface Session {
  readonly client: Nightshift;
  readonly config: Config;
  readonly out: Output;
  /** Aborted by Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
  /** Asks a person; answers yes with `--yes`. Throws a usage error where no person can answer. */
  confirm(question: string): Promise<boolean>;
}

/** What a command is told by its flags and arguments, from commander. */
export type Act<Options> = (
  session: Session,
  options: Options,
  ...args: string[]
) => Promise<number | undefined>;

/** Defines a command's flags; `run` is its action. */
export type Define = (command: Command, run: Run) => void;

/** Makes commander's action of an act: opens the session, and turns errors into exit codes. */
export type Run = <Options>(act: Act<Options>) => (...commanderArguments: unknown[]) => Promise<void>;
