import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { CommandError } from '../failure.ts';
import type { CsvOptions } from './csv-requests.ts';
import type { Input, InputType } from './open-input.ts';

/** Flags that say how a file of work is read. */
export interface WorkFlags {
  readonly type?: InputType;
  readonly template?: string;
  readonly templateFile?: string;
  readonly agent?: string;
  readonly customId?: string;
  readonly delimiter: string;
}

/** Adds the argument and the flags of a file of work. */
export function addWorkFlags(command: Command): Command {
  return command
    .argument('<file>', 'JSONL, JSON or CSV file, also with .gz or .zst; - reads standard input')
    .addOption(
      new Option('--type <type>', 'kind of the file, if its name does not tell').choices([
        'jsonl',
        'json',
        'csv',
      ]),
    )
    .option('--template <text>', 'CSV: message of each row, with {{ column }}')
    .option('--template-file <file>', 'CSV: file with the template')
    .option('--agent <id>', 'CSV: agent of all rows')
    .option('--custom-id <column>', 'CSV: column of the custom ids (default: custom_id, else row-1, row-2 …)')
    .option('--delimiter <character>', 'CSV: character between values', ',');
}

/** Reads the flags of CSV files. Throws: a usage error for two templates. */
export function csvOptionsOf(flags: WorkFlags): CsvOptions {
  if (flags.template !== undefined && flags.templateFile !== undefined)
    throw new CommandError('Give --template or --template-file, not both.');
  const template =
    flags.templateFile === undefined ? flags.template : readFileSync(flags.templateFile, 'utf8').trimEnd();
  return {
    template,
    agentId: flags.agent,
    customId: flags.customId,
    delimiter: flags.delimiter.replace(String.raw`\t`, '\t'),
  };
}

const CSV_FLAGS = {
  template: '--template',
  templateFile: '--template-file',
  agent: '--agent',
  customId: '--custom-id',
} as const;

/** Throws a usage error for a flag of CSV files beside another file. */
export function refuseCsvFlags(flags: WorkFlags, { name, type }: Input): void {
  for (const [key, flag] of Object.entries(CSV_FLAGS))
    if (type !== 'csv' && flags[key as keyof typeof CSV_FLAGS] !== undefined)
      throw new CommandError(
        `${flag} is for CSV files, and ${name} is ${type.toUpperCase()}, whose requests name their agent. Leave ${flag} out, or add --type csv.`,
      );
}
